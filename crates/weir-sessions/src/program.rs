//! Programs that a session records and does not know yet: who finds them, and a program as JSON.
//!
//! A [`Finder`] is handed to the daemon, which itself looks at no process: it tells of processes that load LTTng-UST as they come. Such a process
//! may be held where none of its own code has run ([`Turn`]).

use std::os::fd::BorrowedFd;
use std::rc::Rc;

use serde_json::{Value, json};
use weir_process::processes::ProcessId;
use weir_process::program::Program;
use weir_process::tracked::{Attributes, Tracked};

use crate::object::Object;
use crate::tracked;
use crate::turn::Turn;

/// Finds processes that have events to record.
pub trait Finder {
    /// Whether processes are to be found from now on.
    fn watch(&mut self, is_wanted: bool);

    /// Readable when one has come; none where [`Finder::found`] is to be asked again and again.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Those that have come since this was asked last.
    fn found(&mut self) -> Vec<Found>;

    /// All that there are now.
    fn all(&mut self) -> Vec<Found>;

    /// How many processes were not held any longer though they were to be recorded, since this was asked last.
    fn let_go(&mut self) -> u64;
}

/// A process that loads LTTng-UST.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which one.
    pub id: ProcessId,
    /// What it executes.
    pub program: Program,
    /// What sets of processes ask for.
    pub attributes: Attributes,
    /// It is held, and this is its turn.
    pub turn: Option<Rc<Turn>>,
    /// Those that begin are held.
    pub are_held: bool,
}

/// A program whose processes are recorded, as `weir record` takes it (`--program`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfProgram {
    /// The program.
    pub program: Program,
    /// Of its processes those that are in these sets.
    pub tracked: Tracked,
    /// One of them, whose files are looked at.
    pub pid: i32,
    /// Those that begin are held until the recording has them: it need not look for them.
    pub are_held: bool,
}

impl OfProgram {
    /// As JSON.
    pub fn object(&self) -> Value {
        let mut object = object(&self.program);
        object["pid"] = json!(self.pid);
        object["held"] = json!(self.are_held);
        object["tracked"] = tracked::object(&self.tracked);
        object
    }
}

impl std::str::FromStr for OfProgram {
    type Err = String;

    fn from_str(text: &str) -> Result<OfProgram, String> {
        let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let fields = value.as_object_mut().ok_or("a program is no object")?;
        let mut take = |name: &str| fields.remove(name).unwrap_or_default();
        let (pid, held, sets) = (take("pid"), take("held"), take("tracked"));
        let pid = pid.as_i64().and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
        Ok(OfProgram {
            program: of_object(value)?,
            tracked: tracked::of_object(sets)?,
            are_held: held.as_bool().ok_or("`held` of a program is neither true nor false")?,
            pid: pid.ok_or("`pid` of a program is no number of a process")?,
        })
    }
}

pub(crate) fn object(program: &Program) -> Value {
    let Program { path, device, inode, user, preload, ld_library_path } = program;
    json!({
        "path": path,
        "device": device,
        "inode": inode,
        "user": user,
        "preload": preload,
        "ld_library_path": ld_library_path,
    })
}

/// Whatever it is given: nothing but what [`object`] makes is taken.
pub(crate) fn of_object(value: Value) -> Result<Program, String> {
    let mut object = Object::of(value, "a program")?;
    let user = object.number("user")?;
    let program = Program {
        path: object.text("path")?,
        device: object.number("device")?,
        inode: object.number("inode")?,
        user: u32::try_from(user).map_err(|error| error.to_string())?,
        preload: object.text("preload")?,
        ld_library_path: object.text("ld_library_path")?,
    };
    object.end()?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use weir_process::tracked::Attribute;

    use super::*;

    #[test]
    fn a_program_is_what_it_was_as_an_object_again() {
        let program = Program {
            path: "/bin/shop".to_owned(),
            device: 7,
            inode: u64::MAX,
            user: 1000,
            preload: "a.so".to_owned(),
            ld_library_path: String::new(),
        };
        let mut tracked = Tracked::default();
        tracked.track(Attribute::Pid, &["17".to_owned()]).unwrap();
        let recorded = OfProgram { program, tracked, pid: 17, are_held: true };
        assert_eq!(recorded.object().to_string().parse(), Ok(recorded.clone()));
        for text in ["", "7", "{}", "{\"pid\": 17}", "{\"pid\": 0, \"path\": \"/a\", \"tracked\": {}}"] {
            assert!(text.parse::<OfProgram>().is_err(), "{text}");
        }
        let mut other = recorded.object();
        other["colour"] = json!("red");
        assert!(other.to_string().parse::<OfProgram>().is_err());
    }
}
