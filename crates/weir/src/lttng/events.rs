//! What a session records: its channels, the events in them, the contexts of these.
//!
//! A command may name several; each that fails is reported, the others are done all the same, and the exit code is that of the last failure.

use std::process::ExitCode;

use weir_filter::Dialect;
use weir_run::check_rule;
use weir_sessions::channel::Channel;
use weir_sessions::context::Context;
use weir_sessions::protocol::Request;
use weir_sessions::rule::Rule;

use crate::args::lttng::rules::{AddContext, DisableChannel, DisableEvent, EnableChannel, EnableEvent};
use crate::args::record::level;
use crate::lttng::channel::{self, DEFAULT};
use crate::lttng::client::{Client, End, Session, code};
use crate::lttng::names::{self, Excludes};
use crate::lttng::refused;

pub(super) fn enable_channel(client: &Client, args: &EnableChannel) -> Result<ExitCode, End> {
    refused::check_domain(&args.of)?;
    if args.names.is_empty() {
        return Err(End::error("Missing channel name.".to_owned(), 1));
    }
    let session = client.session(args.session.as_deref())?;
    let of = session.name();
    each(client, &args.names, |name| {
        if session.channel(name).is_some_and(|channel| !channel.is_disabled) {
            let text = format!("Channel {name}: UST channel already exist (session {of})");
            return Err(End::warning(text, code::SOME));
        }
        let (channel, told) =
            channel::asked(args, name, session.is_snapshot()).map_err(|why| End::error(why, 1))?;
        make_channel(client, &session, channel)?;
        told.iter().for_each(|text| client.warn(text));
        client.say(&format!("ust channel {name} enabled for session {of}"))
    })
}

fn make_channel(client: &Client, session: &Session, channel: Channel) -> Result<(), End> {
    let session = Some(session.name().to_owned());
    client.ask(&Request::EnableChannel { session, channel }).map(drop)
}

pub(super) fn disable_channel(client: &Client, args: &DisableChannel) -> Result<ExitCode, End> {
    refused::check_domain(&args.of)?;
    if args.names.is_empty() {
        return Err(End::error("Missing channel name(s).".to_owned(), 1));
    }
    let session = client.session(args.session.as_deref())?;
    let of = session.name();
    each(client, &args.names, |name| {
        if session.channel(name).is_none() {
            return Err(End::error(
                format!("Channel {name}: UST channel not found (session {of})"),
                code::SOME,
            ));
        }
        let request = Request::DisableChannel { session: Some(of.to_owned()), channel: name.to_owned() };
        client.ask(&request)?;
        client.say(&format!("ust channel {name} disabled for session {of}"))
    })
}

pub(super) fn enable(client: &Client, args: &EnableEvent) -> Result<ExitCode, End> {
    refused::check_domain(&args.of)?;
    refused::check(&[
        (args.syscall, "--syscall", "weir trace 'tracepoint:syscalls:…' traces system calls"),
        (args.probe.is_some(), "--probe", "weir trace 'kprobe:…' traces functions of the kernel"),
        (args.function.is_some(), "--function", "weir trace 'kretprobe:…' traces functions of the kernel"),
        (
            args.userspace_probe.is_some(),
            "--userspace-probe",
            "weir record -e 'uprobe:BINARY:FUNCTION' and -e 'usdt:BINARY:PROVIDER:NAME' record them",
        ),
    ])?;
    let names = match (args.all, &args.names) {
        (true, _) => vec!["*".to_owned()],
        (false, names) => names::list(names.as_deref().unwrap_or_default()),
    };
    if names.is_empty() {
        return Err(End::error("Missing event name(s).".to_owned(), 1));
    }
    let session = client.session(args.session.as_deref())?;
    let of = session.name();
    let channel = channel_for(&session, args.channel.as_deref(), &names[0])?;
    let (mut rules, mut told) = (Vec::new(), Vec::new());
    let code = each(client, &names, |name| {
        let (rule, warnings) = rule(args, name, &channel)?;
        // Checked here, where its text can be shown.
        check_rule(&rule)?;
        let has_all = |known: &Rule| rule.events.iter().all(|event| known.events.contains(event));
        let is_known = |known: &Rule| has_all(known) && known.chooses_like(&rule);
        if session.description.rules.iter().any(is_known) {
            let text = format!("Event {name}: UST event already enabled (channel {channel}, session {of})");
            return Err(End::error(text, code::EVENT_ENABLED));
        }
        rules.push(rule);
        told.push((warnings, enabled(args, name, &channel)));
        Ok(())
    })?;
    if !rules.is_empty() && session.channel(&channel).is_none() {
        make_channel(client, &session, channel::usual(&channel, session.is_snapshot()))?;
    }
    for rule in joined(rules) {
        client.ask(&Request::Enable { session: Some(of.to_owned()), rule })?;
    }
    for (warnings, text) in told {
        warnings.iter().for_each(|text| client.warn(text));
        client.say(&text)?;
    }
    Ok(code)
}

/// What chooses in the same way is one: a session that records is then changed once.
fn joined(rules: Vec<Rule>) -> Vec<Rule> {
    let mut all: Vec<Rule> = Vec::new();
    for rule in rules {
        match all.iter_mut().find(|other| other.chooses_like(&rule)) {
            Some(other) => other.events.extend(rule.events),
            None => all.push(rule),
        }
    }
    all
}

/// As LTTng chooses it: `channel0` is meant where no other was ever made.
fn channel_for(session: &Session, given: Option<&str>, event: &str) -> Result<String, End> {
    let of = session.name();
    let has_other = session.description.channels.iter().any(|channel| channel.name != DEFAULT);
    match given {
        Some(given) => Ok(given.to_owned()),
        None if has_other => Err(End::error(
            format!(
                "Event {event}: Non-default channel exists within session: channel name needs to be specified with '-c name' \
                 (channel <default>, session {of})"
            ),
            code::NEED_CHANNEL,
        )),
        None => Ok(DEFAULT.to_owned()),
    }
}

/// What one name asks for, and warnings.
fn rule(args: &EnableEvent, name: &str, channel: &str) -> Result<(Rule, Vec<String>), End> {
    let refused = |why: String| End::error(format!("Event {name}: {why}"), 1);
    let excluded = args.exclude.as_deref().map(names::list).unwrap_or_default();
    if !excluded.is_empty() && !name.contains('*') {
        return Err(refused("Exclusions can only be used with a globbing pattern".to_owned()));
    }
    let (mut exclude, mut told) = (Vec::new(), Vec::new());
    for text in &excluded {
        let patterns = names::patterns(text);
        match (names::excludes(text, name), patterns) {
            (Excludes::All, _) => return Err(refused(format!("{text} excludes all events from {name}"))),
            (Excludes::Some, Ok(patterns)) => exclude.extend(patterns),
            _ => told.push(format!("Event {name}: {text} does not exclude any events from {name}")),
        }
    }
    let level = |text: &Option<String>| {
        let level = text.as_deref().map(|text| level(text).map_err(|_| text.to_owned())).transpose();
        level.map_err(|text| End::error(format!("Unknown loglevel {text}"), code::LEVEL))
    };
    let (least, only) = (level(&args.loglevel)?, level(&args.loglevel_only)?);
    let rule = Rule {
        events: names::attach_points(name).map_err(refused)?,
        exclude,
        // Of both LTTng takes one.
        least: if only.is_some() { None } else { least },
        only,
        filter: args.filter.clone(),
        dialect: if args.filter.is_some() { Dialect::Lttng } else { Dialect::default() },
        channel: Some(channel.to_owned()),
    };
    Ok((rule, told))
}

/// What LTTng says of an event that is enabled.
fn enabled(args: &EnableEvent, name: &str, channel: &str) -> String {
    let excluded = args.exclude.as_deref().map(names::list).unwrap_or_default();
    let excluded: Vec<String> = excluded.iter().map(|text| format!("\"{text}\"")).collect();
    let excluding =
        if excluded.is_empty() { String::new() } else { format!(" excluding {}", excluded.join(", ")) };
    match &args.filter {
        Some(filter) if args.all && excluded.is_empty() => format!("Filter '{filter}' successfully set"),
        Some(filter) => format!("Event {name}{excluding}: Filter '{filter}' successfully set"),
        None if args.all => format!("All ust events{excluding} are enabled in channel {channel}"),
        None => format!("ust event {name}{excluding} created in channel {channel}"),
    }
}

pub(super) fn disable(client: &Client, args: &DisableEvent) -> Result<ExitCode, End> {
    refused::check_domain(&args.of)?;
    let names = names::list(args.names.as_deref().unwrap_or_default());
    if names.is_empty() && !args.all_events {
        return Err(End::error("Missing event name(s).".to_owned(), 1));
    }
    let session = client.session(args.session.as_deref())?;
    let of = session.name();
    let channel = args.channel.as_deref().unwrap_or(DEFAULT);
    if session.channel(channel).is_none() {
        let text = format!("UST channel not found (channel {channel}, session {of})");
        return Err(End::error(text, code::NO_EVENT));
    }
    let rules = || session.description.rules.iter().filter(|rule| rule.channel.as_deref() == Some(channel));
    let (mut events, mut told) = (Vec::new(), Vec::new());
    if args.all_events {
        events.extend(rules().flat_map(|rule| rule.events.clone()));
        told.push(format!("All ust events of type any are disabled in channel {channel}"));
    }
    let code = each(client, &names, |name| {
        let of_name = names::attach_points(name).unwrap_or_default();
        let is_enabled = |event: &String| rules().any(|rule| rule.events.contains(event));
        if of_name.is_empty() || !of_name.iter().all(is_enabled) {
            let text = format!("{name} of type any : UST event not found (channel {channel}, session {of})");
            return Err(End::error(text, code::NO_EVENT));
        }
        events.extend(of_name);
        told.push(format!("ust {name} of type any disabled in channel {channel} for session {of}"));
        Ok(())
    })?;
    events.sort();
    events.dedup();
    if !events.is_empty() {
        let (session, channel) = (Some(of.to_owned()), Some(channel.to_owned()));
        client.ask(&Request::Disable { session, channel, events })?;
    }
    told.iter().try_for_each(|text| client.say(text))?;
    Ok(code)
}

pub(super) fn add_context(client: &Client, args: &AddContext) -> Result<ExitCode, End> {
    if args.list {
        Context::all().try_for_each(|context| client.say(context.name()))?;
        return Ok(ExitCode::SUCCESS);
    }
    refused::check_domain(&args.of)?;
    if args.types.is_empty() {
        return Err(End::error("Missing mandatory -t TYPE".to_owned(), 1));
    }
    let contexts: Result<Vec<Context>, End> = args.types.iter().map(|name| context(name)).collect();
    let contexts = contexts?;
    let session = client.session(args.session.as_deref())?;
    let mut channels: Vec<Channel> = session.description.channels.clone();
    if channels.is_empty() && args.channel.as_deref().is_none_or(|name| name == DEFAULT) {
        let usual = channel::usual(DEFAULT, session.is_snapshot());
        make_channel(client, &session, usual.clone())?;
        channels.push(usual);
    }
    channels.retain(|channel| args.channel.as_ref().is_none_or(|name| channel.name == *name));
    each(client, &contexts, |context| {
        let name = context.name();
        if channels.is_empty() {
            return Err(End::error(format!("{name}: UST channel not found"), code::SOME));
        }
        if channels.iter().all(|channel| channel.contexts.contains(context)) {
            return Err(End::error(format!("{name}: UST context already exist"), code::SOME));
        }
        for channel in channels.iter().filter(|channel| !channel.contexts.contains(context)) {
            let channel = Some(channel.name.clone());
            let session = Some(session.name().to_owned());
            client.ask(&Request::AddContexts { session, channel, contexts: vec![*context] })?;
        }
        let to = args.channel.as_ref().map_or("all channels".to_owned(), |name| format!("channel {name}"));
        client.say(&format!("ust context {name} added to {to}"))
    })
}

/// LTTng's type of a context, as far as weir has it.
fn context(name: &str) -> Result<Context, End> {
    // Of what LTTng has of programs' events.
    let others = ["pthread_id", "vgid", "veuid", "vsuid", "vegid", "vsgid"];
    let is_other = others.contains(&name) || name.ends_with("_ns") || name.starts_with("perf:");
    let there = || Context::all().map(Context::name).collect::<Vec<_>>().join(", ");
    match name.parse::<Context>().ok().filter(|context| context.name() == name) {
        Some(context) => Ok(context),
        None if name.starts_with("$app.") => {
            let text =
                format!("context {name}: weir calls no context provider of a program; it has {}", there());
            Err(End::error(text, code::CONTEXT))
        }
        None if is_other => {
            let text = format!("context {name}: weir has it not; it has {}", there());
            Err(End::error(text, code::CONTEXT))
        }
        None => Err(End::error(format!("Unknown context type {name}"), code::CONTEXT)),
    }
}

/// Does each, and tells what became of those that failed.
fn each<T>(
    client: &Client,
    of: impl IntoIterator<Item = T>,
    mut todo: impl FnMut(T) -> Result<(), End>,
) -> Result<ExitCode, End> {
    let mut code = ExitCode::SUCCESS;
    for one in of {
        if let Err(end) = todo(one) {
            code = end.report(client.is_quiet);
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::args::lttng::Command as OfLttng;
    use crate::args::{Args, Command};
    use crate::lttng::client::session;

    fn line(words: &[&str]) -> EnableEvent {
        let words = [&["weir", "lttng", "enable-event", "-u"], words].concat();
        let args = Args::parse_from_command_line(words.into_iter().map(Into::into)).unwrap();
        match args.command {
            Command::Lttng(line) => match line.command {
                OfLttng::EnableEvent(args) => args,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_enabled_is_a_rule() {
        let check = |words: &[&str], wanted: serde_json::Value, warnings: usize| {
            let args = line(words);
            let name = args.names.clone().unwrap_or_else(|| "*".to_owned());
            let (rule, told) = rule(&args, &name, "c").unwrap();
            let mut object = json!({"exclude": [], "loglevel": null, "loglevel_only": null, "filter": null, "dialect": "weir", "channel": "c"});
            for (name, value) in wanted.as_object().unwrap() {
                object[name] = value.clone();
            }
            assert_eq!((rule.object(), told.len()), (object, warnings), "{words:?}");
        };
        check(&["a:b"], json!({"events": ["lttng:*:a:b"]}), 0);
        check(&["-a"], json!({"events": ["lttng:*:*:*"]}), 0);
        check(&["*b*"], json!({"events": ["lttng:*:*:*b*", "lttng:*:*b*:*"]}), 0);
        check(
            &["a:*", "--filter", "n > 3 && $ctx.vtid == 4"],
            json!({"events": ["lttng:*:a:*"], "filter": "n > 3 && $ctx.vtid == 4", "dialect": "lttng"}),
            0,
        );
        check(&["a:*", "-x", "a:b,a:c*"], json!({"events": ["lttng:*:a:*"], "exclude": ["a:b", "a:c*"]}), 0);
        check(&["a:*", "-x", "*c,d"], json!({"events": ["lttng:*:a:*"], "exclude": ["*:*c"]}), 1);
        check(&["a:b", "--loglevel=TRACE_INFO"], json!({"events": ["lttng:*:a:b"], "loglevel": "info"}), 0);
        check(
            &["a:b", "--loglevel", "debug_line"],
            json!({"events": ["lttng:*:a:b"], "loglevel": "debug_line"}),
            0,
        );
        check(&["a:b", "--loglevel-only=ERR"], json!({"events": ["lttng:*:a:b"], "loglevel_only": "err"}), 0);
    }

    #[test]
    fn names_that_choose_in_the_same_way_are_one_rule() {
        let rules = |words: &[&str], names: &[&str]| {
            let args = line(words);
            let rules = names.iter().map(|name| rule(&args, name, "c").unwrap().0).collect();
            joined(rules).into_iter().map(|rule| rule.events).collect::<Vec<_>>()
        };
        assert_eq!(rules(&["a:b,c:d"], &["a:b", "c:d"]), [["lttng:*:a:b", "lttng:*:c:d"]]);
        assert_eq!(rules(&["a:*,c:*", "-x", "a:b"], &["a:*", "c:*"]), [["lttng:*:a:*"], ["lttng:*:c:*"]]);
    }

    #[test]
    fn what_is_no_rule_is_refused_with_lttng_s_words_and_number() {
        let check = |words: &[&str], wanted: &str, number: u8| {
            let args = line(words);
            match rule(&args, args.names.as_deref().unwrap(), "c") {
                Err(End::Said { text, code }) => {
                    assert!(text.contains(wanted), "{text}");
                    assert_eq!(code, number);
                }
                other => panic!("{words:?}: {other:?}"),
            }
        };
        check(
            &["a:b", "-x", "a"],
            "Error: Event a:b: Exclusions can only be used with a globbing pattern",
            1,
        );
        check(&["a:*", "-x", "*"], "Error: Event a:*: * excludes all events from a:*", 1);
        check(&["a:b", "--loglevel", "INFO.."], "Error: Unknown loglevel INFO..", code::LEVEL);
        check(&["shop"], "no event of LTTng-UST has such a name", 1);
    }

    #[test]
    fn what_is_said_is_lttng_s() {
        let check =
            |words: &[&str], name: &str, wanted: &str| assert_eq!(enabled(&line(words), name, "c"), wanted);
        check(&["a:b"], "a:b", "ust event a:b created in channel c");
        check(&["-a"], "*", "All ust events are enabled in channel c");
        check(
            &["a:*", "-x", "a:b,a:c"],
            "a:*",
            "ust event a:* excluding \"a:b\", \"a:c\" created in channel c",
        );
        check(&["-a", "-f", "n > 3"], "*", "Filter 'n > 3' successfully set");
        check(&["a:b", "-f", "n > 3"], "a:b", "Event a:b: Filter 'n > 3' successfully set");
    }

    #[test]
    fn channel0_is_meant_where_there_is_no_other() {
        let of = |names: &[&str], given| {
            let channels: Vec<_> = names.iter().map(|name| json!({"name": name, "size": 4096})).collect();
            channel_for(&session(&json!({"channels": channels}), false), given, "a:b").map_err(|_| ())
        };
        assert_eq!(of(&[], None), Ok("channel0".to_owned()));
        assert_eq!(of(&["channel0"], None), Ok("channel0".to_owned()));
        assert_eq!(of(&["channel0", "c"], None), Err(()));
        assert_eq!(of(&["c"], None), Err(()));
        assert_eq!(of(&["c"], Some("d")), Ok("d".to_owned()));
    }

    #[test]
    fn contexts_have_lttng_s_types() {
        let check = |name: &str, wanted: &str| match context(name) {
            Ok(context) => assert_eq!(context.name(), wanted),
            Err(End::Said { text, .. }) => assert!(text.contains(wanted), "{text}"),
            Err(End::Failure(failure)) => panic!("{failure}"),
        };
        check("vtid", "vtid");
        check("tid", "Unknown context type tid");
        check("weather", "Unknown context type weather");
        check("perf:thread:cycles", "weir has it not");
        check("net_ns", "weir has it not");
        check("$app.a:b", "weir calls no context provider");
    }
}
