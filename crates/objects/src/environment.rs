//! Variables of the environment.

use std::collections::HashMap;

/// Variables of the environment.
#[derive(Clone, Debug, Default)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    /// That of this process; variables that are empty or no text count as not set.
    pub fn of_process() -> Self {
        let pairs = std::env::vars_os();
        let pairs = pairs.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self(pairs.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// One of these variables.
    pub fn of<'v>(pairs: impl IntoIterator<Item = (&'v str, &'v str)>) -> Self {
        let pairs = pairs.into_iter();
        Self(
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// Returns a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns true if the variable is `true`.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}
