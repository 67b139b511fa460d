//! The policies in force: the administrator's file, and one that the caller names, which can only take away.
//!
//! In: files. Out: [`Policy`]s, or the first reason why one cannot be believed. A file is believed that belongs to root (the
//! caller's own one: or to the caller) and that nobody else may write; what it is checked on is what is read, whatever
//! symbolic links lead there. A file that is there and cannot be read or understood ends the run: nothing is allowed by
//! mistake. Deliberately not done: judging.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use weir_source::{SourceFile, render};

use crate::Error;
use crate::policy::{Policy, parse};

/// Where an administrator puts it.
pub const SYSTEM_POLICY: &str = "/etc/weir/policy.toml";

/// A policy is a page of text; more is no policy.
const POLICY_BYTES_MAX: u64 = 1 << 20;

/// Bits of a file's mode that let its group and others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The administrator's policy, if there is one, and that of `given`, which must be there. `uid`: the caller.
pub fn load(given: Option<&Path>, uid: u32) -> Result<Vec<Policy>, Error> {
    let system = read(Path::new(SYSTEM_POLICY), &[0], false)?;
    let own = match given {
        Some(path) => read(path, &[0, uid], true)?,
        None => None,
    };
    Ok(system.into_iter().chain(own).collect())
}

/// The policy at `path`, which must belong to one of `owners`; none where it `needs` not be there and is not.
fn read(path: &Path, owners: &[u32], must_be: bool) -> Result<Option<Policy>, Error> {
    let refused = |reason: String| {
        Error::Refused(format!(
            "the policy {} is not followed, so nothing is traced: {reason}",
            path.display()
        ))
    };
    // Opening does not wait for the other end of a FIFO, nor make a terminal weir's own: it is looked at what was opened.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut file = match File::options().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must_be => return Ok(None),
        Err(error) => return Err(refused(error.to_string())),
    };
    let metadata = file.metadata().map_err(|error| refused(error.to_string()))?;
    check(metadata.is_file(), metadata.uid(), metadata.mode(), metadata.len(), owners).map_err(refused)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| refused(error.to_string()))?;
    let source = SourceFile { name: path.display().to_string(), text };
    match parse(&source) {
        Ok(policy) => Ok(Some(policy)),
        Err(faults) => {
            let count = match faults.len() {
                1 => "it has a mistake".to_owned(),
                many => format!("it has {many} mistakes"),
            };
            Err(refused(format!("{count}\n{}", render(&source, &faults, false).trim_end())))
        }
    }
}

/// Whether such a file may say what is allowed.
fn check(is_file: bool, uid: u32, mode: u32, bytes: u64, owners: &[u32]) -> Result<(), String> {
    if !is_file {
        return Err("it is not a regular file".into());
    }
    if !owners.contains(&uid) {
        return Err(format!("it belongs to user {uid}, and has to belong to root: chown root FILE"));
    }
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(format!("others may write it (mode {:04o}): chmod go-w FILE", mode & 0o7777));
    }
    if bytes > POLICY_BYTES_MAX {
        return Err(format!("it has {bytes} bytes, and a policy has at most {POLICY_BYTES_MAX}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(is_file: bool, uid: u32, mode: u32, bytes: u64, part: &str) {
        let reason = check(is_file, uid, mode, bytes, &[0, 7]).unwrap_err();
        assert!(reason.contains(part), "{reason}");
    }

    #[test]
    fn files_that_somebody_else_may_write_are_not_believed() {
        for mode in [0o100644, 0o100600, 0o100444, 0o104755] {
            assert_eq!(check(true, 0, mode, 10, &[0]), Ok(()));
        }
        assert_eq!(check(true, 7, 0o100600, 10, &[0, 7]), Ok(()));
        check_refused(true, 8, 0o100600, 10, "belongs to user 8");
        check_refused(true, 0, 0o100664, 10, "mode 0664");
        check_refused(true, 0, 0o100646, 10, "mode 0646");
        check_refused(false, 0, 0o040755, 10, "not a regular file");
        check_refused(true, 0, 0o100644, POLICY_BYTES_MAX + 1, "at most");
    }

    #[test]
    fn a_policy_that_is_not_there_is_none_unless_it_was_given() {
        let nowhere = Path::new("/proc/nothing/policy.toml");
        assert!(matches!(read(nowhere, &[0], false), Ok(None)));
        assert!(matches!(read(nowhere, &[0], true), Err(Error::Refused(_))));
    }
}
