//! What a section says of itself, and what was counted at an interface.

/// A section header's texts: of what made the section.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Section {
    /// The machine (shb_hardware).
    pub hardware: Option<String>,
    /// Its operating system (shb_os).
    pub os: Option<String>,
    /// The program (shb_userappl).
    pub application: Option<String>,
    /// What a human says of it.
    pub comments: Vec<String>,
}

/// What was counted at an interface since the capture began there. What is `None` is not known.
///
/// Times are nanoseconds since the epoch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// When this was counted; `None` before 1970 and after 2554.
    pub time: Option<u64>,
    /// When the capture began (isb_starttime).
    pub start: Option<u64>,
    /// When it ended (isb_endtime).
    pub end: Option<u64>,
    /// Packets that the interface received (isb_ifrecv).
    pub received: Option<u64>,
    /// Packets that the interface dropped (isb_ifdrop).
    pub dropped: Option<u64>,
    /// Packets that the filter accepted (isb_filteraccept).
    pub accepted: Option<u64>,
    /// Packets that the operating system dropped (isb_osdrop).
    pub os_dropped: Option<u64>,
    /// Packets that were delivered to the program (isb_usrdeliv).
    pub delivered: Option<u64>,
    /// What a human says of it.
    pub comments: Vec<String>,
}
