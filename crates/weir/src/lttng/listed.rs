//! Sessions as LTTng's `list` and `status` show them. Pure.
//!
//! A ring has a size, and no parts: where LTTng says `Sub-buffer size` and `Sub-buffer count`, there is `Ring size`.

use nix::unistd::{Gid, Group, Uid, User};
use weir_event::schema::Level;
use weir_process::tracked::Attribute;
use weir_sessions::channel::Channel;
use weir_sessions::description::Description;
use weir_sessions::rule::Rule;

use crate::lttng::client::Session;
use crate::lttng::names;

/// Behind the head of a session.
pub(super) const DOMAINS: &str = "\nDomains:\n-------------\n  - UST global\n";

pub(super) fn all(sessions: &[Session]) -> String {
    if sessions.is_empty() {
        return "Currently no available recording session\n".to_owned();
    }
    let mut text = "Available recording sessions:\n".to_owned();
    for (at, session) in sessions.iter().enumerate() {
        text += &format!("  {}) {} [{}]\n", at + 1, session.name(), state(session));
        text += &format!("    Trace output: {}\n\n", session.description.folder.display());
    }
    text + "\nUse weir lttng list <session_name> for more details\n"
}

fn state(session: &Session) -> String {
    let state = if session.is_active { "active" } else { "inactive" };
    if session.is_snapshot() { format!("{state} snapshot") } else { state.to_owned() }
}

pub(super) fn head(session: &Session) -> String {
    let folder = session.description.folder.display();
    format!("Recording session {}: [{}]\n    Trace output: {folder}\n", session.name(), state(session))
}

/// `only`: of its channels this one.
pub(super) fn session(session: &Session, only: Option<&str>) -> String {
    let mut text = head(session);
    text += "\n=== Domain: User space ===\n\nBuffering scheme: per-user\n\nTracked process attributes\n";
    for (attribute, name) in [
        (Attribute::Pid, "Virtual process IDs:  "),
        (Attribute::Uid, "Virtual user IDs:     "),
        (Attribute::Gid, "Virtual group IDs:    "),
    ] {
        text += &format!("  {name}{}\n", tracked(session, attribute));
    }
    let Description { channels, rules, .. } = &session.description;
    let unnamed = rules.iter().any(|rule| rule.channel.is_none()).then(|| unnamed(&session.description));
    let shown =
        channels.iter().chain(&unnamed).filter(|channel| only.is_none_or(|only| channel.name == only));
    for (at, channel) in shown.enumerate() {
        if at == 0 {
            text += "\nChannels:\n-------------\n";
        }
        text += &of_channel(session, channel);
    }
    text
}

/// Where `weir record enable` puts events.
fn unnamed(of: &Description) -> Channel {
    Channel {
        name: String::new(),
        size: of.size,
        options: of.options.clone(),
        contexts: of.contexts.clone(),
        is_disabled: false,
    }
}

fn tracked(session: &Session, attribute: Attribute) -> String {
    let tracked = &session.description.tracked;
    let Some((_, values)) = tracked.sets().find(|(of, _)| *of == attribute) else { return "all".to_owned() };
    let values: Vec<String> = values.map(|value| known_as(attribute, value)).collect();
    if values.is_empty() { "none".to_owned() } else { values.join(", ") }
}

/// Of users and groups their names.
fn known_as(attribute: Attribute, value: &str) -> String {
    let number = value.parse().ok();
    let name = number.and_then(|number| match attribute {
        Attribute::Uid => User::from_uid(Uid::from_raw(number)).ok().flatten().map(|user| user.name),
        Attribute::Gid => Group::from_gid(Gid::from_raw(number)).ok().flatten().map(|group| group.name),
        Attribute::Pid | Attribute::Name => None,
    });
    name.map_or_else(|| value.to_owned(), |name| format!("`{name}`"))
}

fn of_channel(session: &Session, channel: &Channel) -> String {
    let Channel { name, size, options, is_disabled, contexts } = channel;
    let enabled = if *is_disabled { "disabled" } else { "enabled" };
    let is_overwritten = options.contains_key("overwrite");
    let shown = if name.is_empty() { "(no name)" } else { name };
    let mut text = format!("- {shown}: [{enabled}]\n\n    Attributes:\n");
    let mut line = |what: &str, value: &str| text += &format!("      {what:<17} {value}\n");
    line("Event-loss mode:", if is_overwritten { "overwrite" } else { "discard" });
    line("Ring size:", &format!("{size} bytes for each CPU"));
    if !is_overwritten {
        let wait = options.get("blocking").map_or("0us", String::as_str);
        let number = wait.trim_end_matches(|c: char| !c.is_ascii_digit());
        line("Blocking timeout:", &format!("{number} {}", &wait[number.len()..]));
    }
    let count = options.get("file-count").map_or("unlimited", String::as_str);
    line(
        "Trace file count:",
        &format!("{} per stream", if options.contains_key("file-size") { count } else { "1" }),
    );
    let bytes = options.get("file-size").map_or("unlimited".to_owned(), |size| format!("{size} bytes"));
    line("Trace file size:", &bytes);
    if !contexts.is_empty() {
        let contexts: Vec<&str> = contexts.iter().map(|context| context.name()).collect();
        line("Contexts:", &contexts.join(", "));
    }
    // They are counted for the session, not for each channel.
    if session.description.channels.len() <= 1 {
        text += &format!("\n    Statistics:\n      Discarded events: {}\n", session.discarded);
    }
    text += "\n    Recording event rules:\n";
    let rules: Vec<String> = session
        .description
        .rules
        .iter()
        .filter(|rule| rule.channel.as_deref().unwrap_or_default() == *name)
        .flat_map(|rule| rule.events.iter().map(|event| format!("      {}\n", of_rule(event, rule))))
        .collect();
    text + &if rules.is_empty() { "      None\n".to_owned() } else { rules.concat() } + "\n"
}

fn of_rule(event: &str, rule: &Rule) -> String {
    let level = match (rule.only, rule.least) {
        (Some(level), _) => format!(" (loglevel == {})", level_of(level)),
        (None, Some(level)) => format!(" (loglevel <= {})", level_of(level)),
        (None, None) => String::new(),
    };
    let mut text = format!("{}{level} (type: tracepoint) [enabled]", names::shown(event));
    if let Some(filter) = &rule.filter {
        text += &format!(" [filter: '{filter}']");
    }
    if !rule.exclude.is_empty() {
        let excluded: Vec<String> = rule.exclude.iter().map(|name| format!("\"{name}\"")).collect();
        text += &format!(" [exclusions: {}]", excluded.join(", "));
    }
    text
}

/// `TRACE_INFO (6)`.
pub(super) fn level_of(level: Level) -> String {
    format!("TRACE_{} ({})", level.name().to_ascii_uppercase(), level.number())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lttng::client::session as session_of;

    #[test]
    fn sessions_are_numbered() {
        let plain = session_of(&json!({}), true);
        let snapshots =
            session_of(&json!({"name": "t", "folder": "/t", "options": {"overwrite": ""}}), false);
        let wanted = "Available recording sessions:
  1) s [active]
    Trace output: /s

  2) t [inactive snapshot]
    Trace output: /t


Use weir lttng list <session_name> for more details
";
        assert_eq!(all(&[plain, snapshots]), wanted);
        assert_eq!(all(&[]), "Currently no available recording session\n");
    }

    #[test]
    fn a_session_is_shown_with_its_channels_and_rules() {
        let fields = json!({
            "tracked": {"pid": ["17", "18"], "uid": ["0"], "gid": []},
            "channels": [{"name": "c", "size": 8192, "contexts": ["vtid"], "is_disabled": false,
                "options": {"blocking": "100us", "file-size": "4096", "file-count": "3"}}],
            "rules": [{"events": ["lttng:*:a:*"], "channel": "c", "exclude": ["a:b"], "loglevel": "info", "filter": "n > 3"},
                {"events": ["lttng:*:*:*"], "channel": "other"}],
        });
        let wanted = "Recording session s: [inactive]
    Trace output: /s

=== Domain: User space ===

Buffering scheme: per-user

Tracked process attributes
  Virtual process IDs:  17, 18
  Virtual user IDs:     `root`
  Virtual group IDs:    none

Channels:
-------------
- c: [enabled]

    Attributes:
      Event-loss mode:  discard
      Ring size:        8192 bytes for each CPU
      Blocking timeout: 100 us
      Trace file count: 3 per stream
      Trace file size:  4096 bytes
      Contexts:         vtid

    Statistics:
      Discarded events: 7

    Recording event rules:
      a:* (loglevel <= TRACE_INFO (6)) (type: tracepoint) [enabled] [filter: 'n > 3'] [exclusions: \"a:b\"]

";
        assert_eq!(session(&session_of(&fields, false), None), wanted);
        let of_record = json!({"rules": [{"events": ["shop:*"]}], "options": {"blocking": "100ms"}});
        let text = session(&session_of(&of_record, false), None);
        for wanted in [
            "- (no name): [enabled]",
            "Ring size:        4096 bytes",
            "timeout: 100 ms",
            "      shop:* (type",
        ] {
            assert!(text.contains(wanted), "{text} lacks {wanted}");
        }
    }
}
