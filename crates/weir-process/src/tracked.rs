//! Which processes of a session are recorded, where not all are: sets by attribute, as LTTng's inclusion sets.
//!
//! In: what is tracked and untracked. Out: whether a process is in all sets. An attribute without a set holds for every process; one with
//! an empty set for none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use weir_symbols::pattern;

use crate::processes::{Process, Processes};

/// What distinguishes processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Attribute {
    /// Its number.
    Pid,
    /// The user whose it is: effective.
    Uid,
    /// The group: effective.
    Gid,
    /// Of its command (`comm`), a pattern.
    Name,
}

/// In the order in which they are listed.
const NAMES: [(Attribute, &str); 4] =
    [(Attribute::Pid, "pid"), (Attribute::Uid, "uid"), (Attribute::Gid, "gid"), (Attribute::Name, "name")];

impl Attribute {
    /// Every one of them.
    pub fn all() -> impl Iterator<Item = Attribute> {
        NAMES.into_iter().map(|(attribute, _)| attribute)
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(attribute, _)| attribute == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Attribute {
    type Err = String;

    fn from_str(name: &str) -> Result<Attribute, String> {
        let row = NAMES.iter().find(|(_, known)| *known == name);
        row.map(|(attribute, _)| *attribute)
            .ok_or_else(|| format!("processes have no attribute `{}`", name.escape_debug()))
    }
}

/// What is known of a process, as far as sets ask for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Its number.
    pub pid: i32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its command.
    pub comm: String,
}

impl Attributes {
    /// Of a process that is there.
    pub fn of(process: &Process, processes: &Processes) -> Option<Attributes> {
        let ([_, uid, _], [_, gid, _]) =
            (processes.users(process.id.pid)?, processes.groups(process.id.pid)?);
        Some(Attributes { pid: process.id.pid, uid, gid, comm: process.comm.clone() })
    }
}

/// The sets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tracked {
    sets: BTreeMap<Attribute, BTreeSet<String>>,
}

impl Tracked {
    /// Of sets that were taken from [`Tracked::sets`]; what is no number where one is wanted is refused.
    pub fn of(sets: impl IntoIterator<Item = (Attribute, Vec<String>)>) -> Result<Tracked, String> {
        let mut tracked = Tracked::default();
        for (attribute, values) in sets {
            values.iter().try_for_each(|value| check(attribute, value))?;
            tracked.sets.insert(attribute, values.into_iter().collect());
        }
        Ok(tracked)
    }

    /// The sets that there are.
    pub fn sets(&self) -> impl Iterator<Item = (Attribute, impl Iterator<Item = &str>)> {
        self.sets.iter().map(|(attribute, values)| (*attribute, values.iter().map(String::as_str)))
    }

    /// Every process is in.
    pub fn is_of_all(&self) -> bool {
        self.sets.is_empty()
    }

    /// Has the set hold these too; without values every process is in.
    pub fn track(&mut self, attribute: Attribute, values: &[String]) -> Result<(), String> {
        values.iter().try_for_each(|value| check(attribute, value))?;
        if values.is_empty() {
            let was = self.sets.remove(&attribute);
            return was.map(drop).ok_or_else(|| format!("every {attribute} is tracked already"));
        }
        let set = self.sets.entry(attribute).or_default();
        match values.iter().filter(|value| set.insert((*value).clone())).count() {
            0 => Err(format!("{attribute} {}: tracked already", values.join(", "))),
            _ => Ok(()),
        }
    }

    /// Takes these out of the set; without values all: no process is in then.
    pub fn untrack(&mut self, attribute: Attribute, values: &[String]) -> Result<(), String> {
        if values.is_empty() {
            self.sets.insert(attribute, BTreeSet::new());
            return Ok(());
        }
        let Some(set) = self.sets.get_mut(&attribute) else {
            return Err(format!(
                "every {attribute} is tracked: untrack all of them first, then track those that are meant"
            ));
        };
        match values.iter().filter(|value| set.remove(*value)).count() {
            0 => Err(format!("{attribute} {}: not tracked", values.join(", "))),
            _ => Ok(()),
        }
    }

    /// Whether the process is in every set.
    pub fn has(&self, process: &Attributes) -> bool {
        self.sets.iter().all(|(attribute, set)| match attribute {
            Attribute::Pid => set.contains(&process.pid.to_string()),
            Attribute::Uid => set.contains(&process.uid.to_string()),
            Attribute::Gid => set.contains(&process.gid.to_string()),
            Attribute::Name => {
                set.iter().any(|name| *name == process.comm || pattern::matches(name, &process.comm))
            }
        })
    }
}

fn check(attribute: Attribute, value: &str) -> Result<(), String> {
    let is_number = value.parse::<u32>().is_ok_and(|number| number.to_string() == value);
    match attribute {
        Attribute::Name if !value.is_empty() => Ok(()),
        Attribute::Name => Err("a name is wanted, and this is empty".to_owned()),
        _ if is_number => Ok(()),
        _ => Err(format!("{attribute} `{}` is no number", value.escape_debug())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32) -> Attributes {
        Attributes { pid, uid: 1000, gid: 100, comm: "shop".to_owned() }
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_process_is_in_if_every_set_has_it() {
        let mut tracked = Tracked::default();
        assert!(tracked.has(&process(17)) && tracked.is_of_all());
        tracked.track(Attribute::Pid, &words("17 18")).unwrap();
        assert!(tracked.has(&process(17)) && !tracked.has(&process(19)));
        tracked.track(Attribute::Name, &words("s*p")).unwrap();
        assert!(tracked.has(&process(17)));
        tracked.track(Attribute::Uid, &words("0")).unwrap();
        assert!(!tracked.has(&process(17)));
        tracked.track(Attribute::Uid, &[]).unwrap();
        assert!(tracked.has(&process(17)));
        tracked.untrack(Attribute::Pid, &words("17")).unwrap();
        assert!(!tracked.has(&process(17)) && tracked.has(&process(18)));
        tracked.untrack(Attribute::Gid, &[]).unwrap();
        assert!(!tracked.has(&process(18)));
    }

    #[test]
    fn what_changes_nothing_is_refused() {
        let mut tracked = Tracked::default();
        assert!(tracked.track(Attribute::Pid, &[]).unwrap_err().contains("tracked already"));
        assert!(tracked.untrack(Attribute::Pid, &words("17")).unwrap_err().contains("untrack all"));
        tracked.track(Attribute::Pid, &words("17")).unwrap();
        assert!(tracked.track(Attribute::Pid, &words("17")).unwrap_err().contains("tracked already"));
        assert!(tracked.untrack(Attribute::Pid, &words("18")).unwrap_err().contains("not tracked"));
        assert!(tracked.track(Attribute::Uid, &words("alice")).unwrap_err().contains("no number"));
        assert!(tracked.track(Attribute::Pid, &words("+1")).unwrap_err().contains("no number"));
        assert!(tracked.track(Attribute::Name, &["".to_owned()]).unwrap_err().contains("empty"));
    }

    #[test]
    fn sets_are_what_they_were_again() {
        let mut tracked = Tracked::default();
        tracked.track(Attribute::Pid, &words("17 18")).unwrap();
        tracked.untrack(Attribute::Gid, &[]).unwrap();
        let sets = tracked.sets().map(|(attribute, values)| (attribute, values.map(str::to_owned).collect()));
        assert_eq!(Tracked::of(sets.collect::<Vec<_>>()), Ok(tracked));
        assert!(Tracked::of([(Attribute::Pid, words("x"))]).is_err());
        assert!("weight".parse::<Attribute>().is_err());
        assert!(Attribute::all().all(|attribute| attribute.to_string().parse() == Ok(attribute)));
    }
}
