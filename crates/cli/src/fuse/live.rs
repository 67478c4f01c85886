//! A tree that is asked anew each time somebody looks: nothing of it is kept, neither here nor by
//! the kernel.

/// A tree whose directories and files come and go, and change.
///
/// Numbers are those of inodes: the root is [`ROOT`], and all others are above [`LAST_RESERVED`].
/// A number means the same place for ever, whether something is there or not. Threads ask at the
/// same time.
pub trait Live: Send + Sync + 'static {
    /// Whether any file of it can be written.
    fn is_writable(&self) -> bool {
        false
    }

    /// What is at `number`.
    ///
    /// # Errors
    /// [`Why::Gone`] where nothing is, or no more.
    fn look(&self, number: u64) -> Result<Kind, Refusal>;

    /// What `directory` has by `name`: its number, and what it is.
    ///
    /// # Errors
    /// [`Why::Gone`] where there is nothing of that name.
    fn find(&self, directory: u64, name: &str) -> Result<(u64, Kind), Refusal>;

    /// What is in `directory`.
    ///
    /// # Errors
    /// It has gone, or cannot be listed.
    fn list(&self, directory: u64) -> Result<Listed, Refusal>;

    /// What is in `file` now. Whoever opened it reads this until he closes it.
    ///
    /// # Errors
    /// It has gone, or cannot be read.
    fn read(&self, file: u64) -> Result<Vec<u8>, Refusal>;

    /// Takes what was written to `file` in one piece.
    ///
    /// # Errors
    /// It is not what the file takes, or may not be written.
    fn write(&self, file: u64, _text: &[u8]) -> Result<(), Refusal> {
        Err(Refusal {
            why: Why::ReadOnly,
            reason: format!("file {file} cannot be written"),
        })
    }
}

/// Numbers up to this one stand for a directory itself and the one above it, where listings are
/// continued.
pub const LAST_RESERVED: u64 = 2;

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file.
    File {
        /// Whether it can be written.
        writable: bool,
        /// Bytes that are in it now. Reading goes by what it has when it is opened; but since
        /// Linux 6.5 sendfile(2), with which some programs copy, ends where the size says
        /// (filemap_splice_read, mm/filemap.c).
        size: u64,
    },
}

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The directory that it is in; the root's is its own.
    pub parent: u64,
    /// Names, numbers and whether they are directories, by rising numbers: a listing goes on behind
    /// a number, so that nothing is passed over or told twice when others come and go meanwhile.
    pub entries: Vec<(String, u64, bool)>,
}

/// Why something is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is not there: ENOENT. Nobody is told more.
    Gone,
    /// What was written is not what the file takes: EINVAL.
    Invalid,
    /// It is not allowed: EACCES.
    Denied,
    /// There is nothing it could be written to: EROFS.
    ReadOnly,
    /// It became another one meanwhile: EAGAIN.
    Changed,
    /// Anything else: EIO.
    Failed,
}

/// Why something is not done, and in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why: what the caller sees.
    pub why: Why,
    /// In words.
    pub reason: String,
}

impl Refusal {
    /// That something is not there.
    pub fn gone() -> Self {
        Self {
            why: Why::Gone,
            reason: "it is not there".into(),
        }
    }
}
