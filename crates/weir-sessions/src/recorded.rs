//! What recordings came to, as the end of a run reports it.

use std::fmt;
use std::path::PathBuf;

/// What a recording came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Where it is.
    pub place: Place,
    /// Folders that were written before the last.
    pub folders_before: u64,
    /// Name, records, and records that the ring had no room for; texts and sequences that were cut.
    pub events: Vec<(String, u64, u64, u64)>,
    /// All that was lost.
    pub discarded: u64,
    /// Bytes of fields.
    pub bytes: u64,
    /// Events that the trace had no room for.
    pub unwritten: u64,
    /// What was in files that gave way to newer ones.
    pub removed: u64,
    /// It could not be written to its end.
    pub has_failed: bool,
}

/// Where a recording is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In this folder.
    Folder(PathBuf),
    /// In the pipe of this name.
    Pipe(String),
}

/// What a flight recorder came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshots {
    /// It is asked for snapshots by the session's name.
    pub is_of_session: bool,
    /// The folder of the snapshots.
    pub path: PathBuf,
    /// Snapshots.
    pub taken: u64,
    /// Of these, those that gave way to newer ones.
    pub removed: u64,
    /// Snapshots that could not be written.
    pub failed: u64,
    /// Events that asked.
    pub asked: u64,
    /// Of these, those that share a snapshot with another.
    pub shared: u64,
    /// Events that were left out while the rings were held.
    pub held: u64,
    /// Name; what the rings refused, and texts and sequences that were cut.
    pub events: Vec<(String, u64, u64)>,
}

impl Recorded {
    /// Events that are not in the trace.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Events that are.
    pub fn recorded(&self) -> u64 {
        self.events.iter().map(|(_, recorded, ..)| recorded).sum()
    }

    /// Writing has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recorded = self.recorded();
        let discarded = match self.discarded {
            0 => String::new(),
            some => format!(", {some} discarded"),
        };
        let place = &self.place;
        let unwritten = match self.unwritten {
            0 => String::new(),
            some => format!(", {some} that could not be written"),
        };
        let folders = match self.folders_before {
            0 => String::new(),
            some => format!(" and {some} folders before it"),
        };
        let bytes = self.bytes;
        write!(
            f,
            "{recorded} events recorded{discarded}{unwritten}; {bytes} bytes of fields, {place}{folders}"
        )?;
        for (name, recorded, lost, cut) in &self.events {
            let lost =
                if *lost > 0 { format!(", {lost} discarded: the ring was full") } else { String::new() };
            let cut = if *cut > 0 { format!(", {cut} texts or sequences cut") } else { String::new() };
            write!(f, "\n  {name}: {recorded}{lost}{cut}")?;
        }
        if self.removed > 0 {
            let removed = self.removed;
            write!(f, "\n  {removed} of these were in files that gave way to newer ones (--file-count)")?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(path) => write!(f, "in {}", path.display()),
            Place::Pipe(name) => write!(f, "to {name}"),
        }
    }
}

impl Snapshots {
    /// How many snapshots were taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Something could not be written.
    pub fn has_failed(&self) -> bool {
        self.failed > 0
    }
}

impl fmt::Display for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        let mut lines = Vec::new();
        match self.taken {
            0 if self.failed > 0 => {}
            0 => {
                let asks = if self.is_of_session { "weir record snapshot" } else { "SIGUSR1" };
                lines.push(format!(
                    "no snapshot was asked for, and what was in the rings is gone: {asks}, --snapshot-on and \
                     --snapshot-at-end ask for one"
                ));
            }
            1 => lines.push(format!("1 snapshot, in {path}")),
            many => lines.push(format!("{many} snapshots, in {path}")),
        }
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                lines.push(format!("  {count} {what}"));
            }
        };
        say(self.removed, "older ones were removed (--snapshots)");
        say(self.failed, "more could not be written");
        say(self.asked, "events asked for one (--snapshot-on)");
        say(self.shared, "of these share one with another (--snapshot-interval)");
        say(self.held, "events were discarded while the rings were held for a snapshot");
        for (name, lost, cut) in &self.events {
            say(*lost, &format!("{name} discarded: no room in the ring"));
            say(*cut, &format!("texts or sequences of {name} cut"));
        }
        f.write_str(&lines.join("\n"))
    }
}
