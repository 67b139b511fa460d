//! A program at a site: which one, and at which ends of a call it runs.
//!
//! In: what a consumer asks for. Out: words that generated code, attaching and counting share; they know nothing of
//! what the program does.

/// One program of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attach {
    /// Index of an executable.
    pub executable: usize,
    /// What `get_attach_cookie` answers.
    pub cookie: u64,
    pub when: When,
}

/// At which ends of a call a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    Entry,
    /// With the registers as at the return: ax holds the result, ip the address that the caller goes on at, sp is as
    /// behind the `ret`.
    Return,
    /// At both; they share 8 bytes, and an entry that answers other than 0 suppresses the return.
    Session,
    /// A session that makes sense without its return: where that cannot be caught it runs at the entry.
    EntryAndReturn,
}

impl When {
    pub fn wants_return(self) -> bool {
        self != When::Entry
    }
}
