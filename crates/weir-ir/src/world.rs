//! How a front end asks about what lies outside the text: which functions a pattern names.
//!
//! The compiler is pure; whoever calls it implements [`World`] with weir-symbols, and tests with a table.

/// A function that a pattern matched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundFunction {
    /// The resolved path of its binary.
    pub binary: String,
    pub name: String,
}

/// Why a binary or function could not be found: the message and, where there is one, the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorldError {
    pub message: String,
    pub hint: Option<String>,
}

pub trait World {
    /// Functions of `binary` (a path, a name in PATH, or a library's short name such as `libc`) whose names
    /// match `pattern` (`*`, `?` and `[…]` as in a shell). Never empty: no match is an error that names near misses.
    fn functions(&self, binary: &str, pattern: &str) -> Result<Vec<FoundFunction>, WorldError>;
}
