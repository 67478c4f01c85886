//! The commands of a configuration file, parsed.

/// An error and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// Description of the error.
    pub text: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// `SYMBOL[:TYPE][.MEMBER]...`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// The text as written.
    pub text: String,
    /// The symbol, or the loop variable.
    pub symbol: String,
    /// The type written after the symbol.
    pub written_type: Option<String>,
    /// The members, outermost first.
    pub members: Vec<String>,
}

/// The number of bytes to erase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The size of the type.
    ByType,
    /// A number of bytes.
    Bytes(u64),
    /// The value of a variable, in bytes.
    Variable(Expression),
    /// Nothing is erased, but the pointer itself is set to 0.
    Nullify,
}

/// An `erase` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erase {
    /// Its line.
    pub line: usize,
    /// The data to erase.
    pub target: Expression,
    /// The number of bytes.
    pub amount: Amount,
}

/// How the elements of a loop are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Unspecified: an array, or members named `next`.
    Unspecified,
    /// This member points to the next element.
    Via(String),
    /// Elements are this struct. In lists and trees they are linked by this member: of type
    /// list_head, hlist_node or rb_node; without a name, `list`.
    Within(String, Option<String>),
    /// The variable of each CPU.
    PerCpu,
}

/// A `for` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Its line.
    pub line: usize,
    /// The loop variable.
    pub id: String,
    /// The list.
    pub list: Expression,
    /// The link between elements.
    pub link: Link,
    /// The commands for each element; of nested loops, the innermost has them.
    pub body: Vec<Erase>,
    /// A loop for each element, whose list is a part of it.
    pub inner: Option<Box<Loop>>,
}

impl Loop {
    /// The commands for each element of the innermost loop.
    pub fn erases(&self) -> &[Erase] {
        match &self.inner {
            Some(inner) => inner.erases(),
            None => &self.body,
        }
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// An `erase` command.
    Erase(Erase),
    /// A `for` command.
    Loop(Loop),
}
