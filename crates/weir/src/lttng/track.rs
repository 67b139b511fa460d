//! `track` and `untrack`: which processes of its programs a session records, by LTTng's attributes.

use anyhow::anyhow;
use nix::unistd::{Group, User};
use weir_process::tracked::Attribute;
use weir_sessions::protocol::Request;

use crate::args::lttng::rules::Track;
use crate::failure::Failure;
use crate::lttng::client::{Client, End};
use crate::lttng::refused;

/// What LTTng calls them.
const KINDS: [(Attribute, &str); 3] = [
    (Attribute::Pid, "virtual process ID"),
    (Attribute::Uid, "virtual user ID"),
    (Attribute::Gid, "virtual group ID"),
];

pub(super) fn track(client: &Client, args: &Track, is_tracked: bool) -> Result<(), End> {
    refused::check(&[(
        args.kernel,
        "--kernel",
        "weir records events of programs; weir trace -p PID traces what the kernel does for a process",
    )])?;
    if !args.userspace {
        return Err(End::error("Please specify a domain (--kernel/--userspace).".to_owned(), 1));
    }
    let session = client.session(args.session.as_deref())?;
    let given = [&args.vpid, &args.vuid, &args.vgid];
    let given = KINDS.iter().zip(given).filter_map(|(kind, values)| Some((kind, values.as_ref()?)));
    let mut asked = 0;
    for ((attribute, kind), values) in given {
        asked += 1;
        let request = |values: Vec<String>| Request::Track {
            session: Some(session.name().to_owned()),
            is_tracked,
            attribute: *attribute,
            values,
        };
        if args.all != values.is_empty() {
            let text = "--all goes with --vpid, --vuid and --vgid without values, and these with values without --all";
            return Err(End::error(text.to_owned(), 1));
        }
        let tracked = &session.description.tracked;
        let mut set = tracked.sets().find(|(of, _)| of == attribute).map(|(_, values)| values);
        let known: Option<Vec<&str>> = set.as_mut().map(|values| values.collect());
        if args.all {
            // Said where it is so already, too.
            if known.is_some() || !is_tracked {
                client.ask(&request(Vec::new()))?;
            }
            let policy = if is_tracked { "include all" } else { "exclude all" };
            client.say(&format!("{} tracking policy set to `{policy}`", capital(kind)))?;
            continue;
        }
        for value in values {
            let number = number(*attribute, value)?;
            let is_known = known.as_ref().is_some_and(|known| known.contains(&&number[..]));
            match (is_tracked, is_known) {
                (true, true) => client.warn(&format!("{value} is already in the {kind} inclusion set")),
                (false, false) => client.warn(&format!("{value} is not in the {kind} inclusion set")),
                (true, false) => {
                    client.ask(&request(vec![number]))?;
                    client.say(&format!("Added {value} to the {kind} tracker inclusion set"))?;
                }
                (false, true) => {
                    client.ask(&request(vec![number]))?;
                    client.say(&format!("Removed {value} from the {kind} tracker inclusion set"))?;
                }
            }
        }
    }
    match asked {
        0 => Err(End::error("At least one of --vpid, --vuid and --vgid is wanted.".to_owned(), 1)),
        _ => Ok(()),
    }
}

pub(super) fn capital(text: &str) -> String {
    text.chars().take(1).map(|c| c.to_ascii_uppercase()).chain(text.chars().skip(1)).collect()
}

/// Of a user or a group also by name.
fn number(attribute: Attribute, value: &str) -> Result<String, End> {
    if let Ok(number) = value.parse::<u32>() {
        return Ok(number.to_string());
    }
    let failed = |errno| Failure::Machine(anyhow!("looking for {value}: {errno}"));
    let (found, what) = match attribute {
        Attribute::Uid => (User::from_name(value).map_err(failed)?.map(|user| user.uid.as_raw()), "User"),
        Attribute::Gid => (Group::from_name(value).map_err(failed)?.map(|group| group.gid.as_raw()), "Group"),
        Attribute::Pid | Attribute::Name => {
            return Err(End::error(format!("Invalid process ID: {value}"), 1));
        }
    };
    found.map(|id| id.to_string()).ok_or_else(|| End::error(format!("{what} `{value}` was not found"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_have_names() {
        let check =
            |attribute, value: &str, wanted: Result<&str, &str>| match (number(attribute, value), wanted) {
                (Ok(found), Ok(wanted)) => assert_eq!(found, wanted),
                (Err(End::Said { text, .. }), Err(wanted)) => assert!(text.contains(wanted), "{text}"),
                (found, wanted) => panic!("{value}: {found:?}, not {wanted:?}"),
            };
        check(Attribute::Uid, "root", Ok("0"));
        check(Attribute::Gid, "root", Ok("0"));
        check(Attribute::Gid, "0017", Ok("17"));
        check(Attribute::Pid, "17", Ok("17"));
        check(Attribute::Pid, "root", Err("Invalid process ID: root"));
        check(Attribute::Uid, "no such user", Err("User `no such user` was not found"));
    }
}
