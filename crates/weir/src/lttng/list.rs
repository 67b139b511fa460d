//! `list` and `status`: sessions, one session, or programs.

use crate::args::lttng::List;
use crate::args::lttng::rules::Domain;
use crate::lttng::client::{Client, End};
use crate::lttng::{listed, programs, refused};

pub(super) fn list(client: &Client, args: &List) -> Result<(), End> {
    let is_given = |of: &Domain| [of.kernel, of.jul, of.log4j, of.python, of.userspace].contains(&true);
    refused::check(&[(args.syscall, "--syscall", "weir list 'tracepoint:syscalls:*' shows system calls")])?;
    if is_given(&args.of) {
        refused::check_domain(&args.of)?;
    }
    match &args.name {
        Some(name) if args.domain => {
            let session = client.session(Some(name))?;
            say(client, &(listed::head(&session) + listed::DOMAINS))
        }
        Some(name) => session(client, Some(name), args.channel.as_deref()),
        None if args.of.userspace => say(client, &programs::text(args.fields)?),
        None => say(client, &listed::all(&client.sessions()?)),
    }
}

/// The one of this name, or the current one.
pub(super) fn session(client: &Client, name: Option<&str>, channel: Option<&str>) -> Result<(), End> {
    let session = client.session(name)?;
    if let Some(channel) = channel.filter(|channel| session.channel(channel).is_none()) {
        return Err(End::error(format!("Channel {channel} not found"), 1));
    }
    say(client, &listed::session(&session, channel))
}

fn say(client: &Client, text: &str) -> Result<(), End> {
    client.say(text.strip_suffix('\n').unwrap_or(text))
}
