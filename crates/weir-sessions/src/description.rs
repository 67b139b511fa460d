//! What a session is, apart from whether it records: its folder, its processes, its events, its contexts.
//!
//! In: what the commands ask for. Out: a description that holds together, or why it would not; as an object, for the socket and the state
//! file; as arguments of `weir record`. Pure: no file, no process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_process::tracked::{Attribute, Tracked};
use weir_process::{Follow, Whose};
use weir_symbols::pattern;

use crate::channel::{CHANNEL_OPTIONS, Channel};
use crate::context::Context;
use crate::limits;
use crate::object::Object;
use crate::program::OfProgram;
use crate::rule::Rule;
use crate::tracked;

/// What a session is asked for: it is kept while nothing is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// By which commands mean it.
    pub name: String,
    /// Absolute. Each recording has a folder in it.
    pub folder: PathBuf,
    /// Numbers and patterns of names.
    pub processes: Vec<String>,
    /// Control groups.
    pub cgroups: Vec<String>,
    /// Units of systemd.
    pub units: Vec<String>,
    /// Names or ids of containers.
    pub containers: Vec<String>,
    /// Programs that load LTTng-UST, known by now or not, of these users.
    pub programs: Option<Whose>,
    /// Of the processes of `programs` those that are recorded.
    pub tracked: Tracked,
    /// What is done about children.
    pub follow: Follow,
    /// Bytes of the ring of each CPU, of the channel that has no name.
    pub size: u64,
    /// Those that have a name.
    pub channels: Vec<Channel>,
    /// When it goes on in new folders by itself.
    pub schedule: Schedule,
    /// What else each recording gets ([`OPTIONS`]), by name; what takes no value has an empty one.
    pub options: BTreeMap<String, String>,
    /// As `--budget` takes it.
    pub budget: Option<String>,
    /// The path of a policy beside the administrator's.
    pub policy: Option<String>,
    /// Where names of files are looked for: as it was where the session was made.
    pub directory: String,
    /// `PATH`, as it was there.
    pub search_path: Option<String>,
    /// An event is recorded if one of them names it.
    pub rules: Vec<Rule>,
    /// Patterns of events that were taken out of rules that name more.
    pub disabled: Vec<String>,
    /// What each event carries besides its fields.
    pub contexts: Vec<Context>,
}

/// Whichever of them is due first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// Milliseconds.
    pub every_ms: Option<u64>,
    /// Bytes of the folders that are written.
    pub bytes: Option<u64>,
}

/// The names that [`Description::options`] may have: options of `weir record`, which each recording gets as they are.
pub const OPTIONS: [&str; 21] = [
    "trace-format",
    "file-size",
    "file-count",
    "dialect",
    "any-user",
    "blocking",
    "shm-dir",
    "overwrite",
    "snapshot-on",
    "snapshot-after",
    "snapshot-interval",
    "snapshot-at-end",
    "snapshots",
    "start-on",
    "stop-on",
    "rotate-on",
    "rotate-interval",
    "run-on",
    "run-on-fill",
    "run",
    "run-interval",
];

/// The same of a recording that has some of a session's events: what events do beside may be of the others.
const PART: &str = "part";

/// What may be a session's name: it becomes part of names of files.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match () {
        () if name.len() > limits::NAME_BYTES => Err(format!(
            "a session's name has {} characters at most, this has {}",
            limits::NAME_BYTES,
            name.len()
        )),
        () if name.starts_with(begins) && name.chars().all(is_fit) => Ok(()),
        () => Err(format!(
            "`{}` is no name of a session: letters, digits, `_`, `-` and `.`, beginning with a letter, a digit or `_`",
            name.escape_debug()
        )),
    }
}

impl Description {
    /// Events that were disabled are enabled again; those that are enabled in the same way already stay as they are.
    pub(crate) fn enable(&mut self, mut rule: Rule) -> Result<(), String> {
        if let Some(name) = &rule.channel
            && !self.channels.iter().any(|channel| channel.name == *name)
        {
            return Err(self.no_channel(name));
        }
        let events = rule.events.join(" ");
        let disabled = self.disabled.len();
        self.disabled.retain(|event| !rule.events.contains(event));
        let is_known = |event: &String| {
            self.rules.iter().any(|known| known.events.contains(event) && known.chooses_like(&rule))
        };
        let new: Vec<String> = rule.events.iter().filter(|event| !is_known(event)).cloned().collect();
        if new.is_empty() && self.disabled.len() == disabled {
            return Err(format!("{events}: enabled already"));
        }
        if !new.is_empty() {
            rule.events = new;
            self.rules.push(rule);
        }
        match self.rules.len() <= limits::RULES {
            true => Ok(()),
            false => {
                Err(format!("events were enabled {} times, the limit is {}", self.rules.len(), limits::RULES))
            }
        }
    }

    /// An event that was enabled by this name is taken out; one that a pattern names is left out of it.
    pub(crate) fn disable(&mut self, channel: Option<&str>, events: &[String]) -> Result<(), String> {
        if let Some(name) = channel
            && !self.channels.iter().any(|channel| channel.name == name)
        {
            return Err(self.no_channel(name));
        }
        for event in events {
            let before = self.enabled().count();
            let is_of = |rule: &Rule| channel.is_none() || rule.channel.as_deref() == channel;
            for rule in self.rules.iter_mut().filter(|rule| is_of(rule)) {
                rule.events.retain(|known| known != event);
            }
            self.rules.retain(|rule| !rule.events.is_empty());
            if self.enabled().count() < before {
                continue;
            }
            // What leaves events out goes by provider and event; other names have their file in them.
            let is_plain = |name: &str| name.split(':').count() == 2;
            let is_named = |known: &String| is_plain(known) && pattern::matches(known, event);
            if channel.is_some() {
                let names_it = |rule: &&mut Rule| {
                    is_of(rule) && !rule.exclude.contains(event) && rule.events.iter().any(is_named)
                };
                let mut naming: Vec<&mut Rule> = self.rules.iter_mut().filter(names_it).collect();
                naming.iter_mut().for_each(|rule| rule.exclude.push(event.clone()));
                if naming.is_empty() || !is_plain(event) {
                    return Err(self.not_enabled(event));
                }
                continue;
            }
            if self.disabled.contains(event) || !is_plain(event) || !self.enabled().any(is_named) {
                return Err(self.not_enabled(event));
            }
            if self.disabled.len() == limits::LIST {
                return Err(format!("{} events are disabled, which is the limit", limits::LIST));
            }
            self.disabled.push(event.clone());
        }
        Ok(())
    }

    fn not_enabled(&self, event: &str) -> String {
        let enabled: Vec<&str> = self.enabled().map(String::as_str).collect();
        let enabled = if enabled.is_empty() { "nothing".to_owned() } else { enabled.join(", ") };
        format!("{event} is not enabled; {enabled} is")
    }

    fn enabled(&self) -> impl Iterator<Item = &String> {
        self.rules.iter().flat_map(|rule| &rule.events)
    }

    /// To the events of a channel, or to all.
    pub(crate) fn add_contexts(&mut self, channel: Option<&str>, contexts: &[Context]) -> Result<(), String> {
        let known = match channel {
            None => &mut self.contexts,
            Some(name) => match self.channels.iter_mut().find(|channel| channel.name == name) {
                Some(channel) => &mut channel.contexts,
                None => return Err(self.no_channel(name)),
            },
        };
        let before = known.len();
        for context in contexts {
            if !known.contains(context) {
                known.push(*context);
            }
        }
        match known.len() > before {
            true => Ok(()),
            false => Err("these contexts are recorded already".to_owned()),
        }
    }

    /// Channels that events are recorded in; none is the one without a name.
    pub(crate) fn recorded_channels(&self) -> Vec<Option<String>> {
        let named = self
            .channels
            .iter()
            .filter(|channel| !channel.is_disabled)
            .map(|channel| Some(channel.name.clone()));
        let has_rules = |channel: &Option<String>| self.rules.iter().any(|rule| rule.channel == *channel);
        [None].into_iter().chain(named).filter(has_rules).collect()
    }

    /// What one of its channels is, recorded into `folder`.
    pub(crate) fn of_channel(&self, channel: Option<&str>, folder: PathBuf) -> Description {
        let rules = self.rules.iter().filter(|rule| rule.channel.as_deref() == channel);
        let rules = rules.map(|rule| Rule { channel: None, ..rule.clone() }).collect();
        // Its recordings know nothing of schedules, and are not changed with them.
        let schedule = Schedule::default();
        let mut of_session = Description { rules, folder, schedule, channels: Vec::new(), ..self.clone() };
        if !self.channels.is_empty() {
            of_session.options.insert(PART.to_owned(), String::new());
        }
        let named = channel.and_then(|name| self.channels.iter().find(|channel| channel.name == name));
        let Some(Channel { size, options, contexts, .. }) = named else { return of_session };
        let mut all = of_session.options.clone();
        all.retain(|name, _| !CHANNEL_OPTIONS.contains(&&name[..]));
        all.extend(options.clone());
        let more = contexts.iter().filter(|context| !self.contexts.contains(context));
        let contexts = self.contexts.iter().chain(more).copied().collect();
        Description { size: *size, options: all, contexts, ..of_session }
    }

    /// Has a channel of this name, which is there already or not.
    pub(crate) fn enable_channel(&mut self, channel: Channel) -> Result<(), String> {
        let (name, count) = (channel.name.clone(), self.channels.len());
        match self.channel_mut(&name) {
            Some(known) if known.is_disabled => {
                known.is_disabled = false;
                Ok(())
            }
            Some(_) => Err(format!("there is a channel {name} already, and it is enabled")),
            None if count == limits::CHANNELS => {
                Err(format!("there are {} channels, which is the limit", limits::CHANNELS))
            }
            None => {
                self.channels.push(channel);
                Ok(())
            }
        }
    }

    pub(crate) fn disable_channel(&mut self, name: &str) -> Result<(), String> {
        match self.channel_mut(name) {
            None => Err(self.no_channel(name)),
            Some(known) if known.is_disabled => Err(format!("channel {name} is disabled already")),
            Some(known) => {
                known.is_disabled = true;
                Ok(())
            }
        }
    }

    fn channel_mut(&mut self, name: &str) -> Option<&mut Channel> {
        self.channels.iter_mut().find(|channel| channel.name == name)
    }

    fn no_channel(&self, name: &str) -> String {
        let there: Vec<&str> = self.channels.iter().map(|channel| &channel.name[..]).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        format!("there is no channel {name}; there is {there}")
    }

    /// Has processes be recorded that were not, or the other way about.
    pub(crate) fn track(
        &mut self,
        is_tracked: bool,
        attribute: Attribute,
        values: &[String],
    ) -> Result<(), String> {
        if self.programs.is_none() {
            return Err(
                "it is of processes that were named; those of programs (create --programs) can be tracked"
                    .to_owned(),
            );
        }
        match is_tracked {
            true => self.tracked.track(attribute, values),
            false => self.tracked.untrack(attribute, values),
        }
    }

    /// Events stay in the rings, where the newest take the place of the oldest.
    pub(crate) fn overwrites(&self) -> bool {
        self.options.contains_key("overwrite")
    }

    /// How long events wait for room in the rings.
    pub(crate) fn waits(&self) -> Option<&str> {
        self.options.get("blocking").map(String::as_str)
    }

    /// What is in the rings is written when a recording ends.
    pub(crate) fn keeps_what_is_left(&self) -> bool {
        !self.overwrites() || self.options.contains_key("snapshot-at-end")
    }

    /// As `weir record status` has it; empty where there is none.
    pub(crate) fn shown_schedule(&self) -> String {
        let Schedule { every_ms, bytes } = self.schedule;
        let every = every_ms.map(|ms| format!("every {} s", ms as f64 / 1000.0));
        let bytes = bytes.map(|bytes| format!("at {bytes} bytes"));
        every.into_iter().chain(bytes).collect::<Vec<_>>().join(", ")
    }

    /// What of itself changes the recording, as the command line has it.
    pub(crate) fn shown_options(&self) -> String {
        let is_told = |name: &str| !["overwrite", "blocking"].contains(&name);
        let of_table = OPTIONS.iter().filter(|name| is_told(name));
        let given = of_table.filter_map(|name| Some((name, self.options.get(*name)?)));
        let shown = given.map(|(name, value)| match &value[..] {
            "" => format!("--{name}"),
            plain if plain.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c)) => {
                format!("--{name} {plain}")
            }
            other => format!("--{name} '{other}'"),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    /// The folder of a recording.
    pub(crate) fn folder_of(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// What `weir` is to be called with, to record this into folder `number`.
    pub(crate) fn arguments(
        &self,
        number: u64,
        counts: &Path,
        recorded: Option<&OfProgram>,
    ) -> Vec<OsString> {
        let with = |flag: &str, value: &dyn AsRef<std::ffi::OsStr>| {
            let mut argument = OsString::from(format!("{flag}="));
            argument.push(value);
            argument
        };
        let mut arguments = vec!["record".into(), with("--tended", &counts), with("--tended-as", &self.name)];
        arguments.push(with("--output", &self.folder_of(number)));
        arguments.push(with("--size", &self.size.to_string()));
        arguments.extend(self.enabled().map(|event| with("--event", event)));
        arguments.extend(self.rules.iter().map(|rule| with("--rule", &rule.object().to_string())));
        arguments.extend(self.disabled.iter().map(|event| with("--exclude", event)));
        arguments.extend(self.contexts.iter().map(|context| with("--add-context", &context.name())));
        let of = |flag: &str, values: &[String]| -> Vec<OsString> {
            values.iter().map(|value| with(flag, value)).collect()
        };
        arguments.extend(of("--pid", &self.processes));
        arguments.extend(of("--cgroup", &self.cgroups));
        arguments.extend(of("--unit", &self.units));
        arguments.extend(of("--container", &self.containers));
        arguments.extend(recorded.map(|recorded| with("--program", &recorded.object().to_string())));
        arguments.extend(self.follow.option().map(Into::into));
        arguments.extend(self.options.iter().map(|(name, value)| match value.is_empty() {
            true => format!("--{name}").into(),
            false => with(&format!("--{name}"), value),
        }));
        arguments.extend(self.budget.iter().map(|budget| with("--budget", budget)));
        arguments.extend(self.policy.iter().map(|policy| with("--policy", policy)));
        arguments
    }

    /// As JSON.
    pub fn object(&self) -> Value {
        json!({
            "name": self.name,
            "folder": self.folder.to_string_lossy(),
            "processes": self.processes,
            "cgroups": self.cgroups,
            "units": self.units,
            "containers": self.containers,
            "programs": self.programs.map(|whose| whose.to_string()),
            "tracked": tracked::object(&self.tracked),
            "follow": match self.follow {
                Follow::Late => json!("late"),
                other => json!(other.is_on()),
            },
            "size": self.size,
            "channels": self.channels.iter().map(Channel::object).collect::<Vec<_>>(),
            "rotate_every_ms": self.schedule.every_ms,
            "rotate_bytes": self.schedule.bytes,
            "options": self.options,
            "budget": self.budget,
            "policy": self.policy,
            "directory": self.directory,
            "search_path": self.search_path,
            "rules": self.rules.iter().map(Rule::object).collect::<Vec<_>>(),
            "disabled": self.disabled,
            "contexts": self.contexts.iter().map(|context| context.name()).collect::<Vec<_>>(),
        })
    }

    /// Whatever it is given: nothing but what [`Description::object`] makes is taken.
    pub fn of_object(value: Value) -> Result<Description, String> {
        let mut object = Object::of(value, "a session")?;
        let rules: Result<Vec<Rule>, String> =
            object.values("rules")?.into_iter().map(Rule::of_object).collect();
        let contexts: Result<Vec<Context>, String> =
            object.texts("contexts")?.iter().map(|name| name.parse()).collect();
        let channels: Result<Vec<Channel>, String> =
            object.values("channels")?.into_iter().map(Channel::of_object).collect();
        let description = Description {
            name: object.text("name")?,
            folder: object.text("folder")?.into(),
            processes: object.texts("processes")?,
            cgroups: object.texts("cgroups")?,
            units: object.texts("units")?,
            containers: object.texts("containers")?,
            programs: object.text_or_none("programs")?.map(|whose| whose.parse()).transpose()?,
            tracked: object.value("tracked").map_or(Ok(Tracked::default()), tracked::of_object)?,
            follow: object.follow("follow")?,
            channels: channels?,
            size: object.number("size")?,
            schedule: Schedule {
                every_ms: object.number_or_none("rotate_every_ms")?,
                bytes: object.number_or_none("rotate_bytes")?,
            },
            options: object.texts_by_name("options")?,
            budget: object.text_or_none("budget")?,
            policy: object.text_or_none("policy")?,
            directory: object.text("directory")?,
            search_path: object.text_or_none("search_path")?,
            rules: rules?,
            disabled: object.texts("disabled")?,
            contexts: contexts?,
        };
        object.end()?;
        check_name(&description.name)?;
        let Description {
            folder,
            directory,
            processes,
            cgroups,
            units,
            containers,
            options,
            programs,
            channels,
            ..
        } = &description;
        match () {
            () if !options.keys().all(|name| OPTIONS.contains(&&name[..])) => {
                Err("a session has no such option".to_owned())
            }
            () if !folder.is_absolute() || !Path::new(directory).is_absolute() => {
                Err("the folder of a session is given by its whole path".to_owned())
            }
            () if [processes, cgroups, units, containers].iter().all(|given| given.is_empty())
                && programs.is_none() =>
            {
                Err("a session is of some processes".to_owned())
            }
            () if description.schedule.every_ms.is_some_and(|ms| ms < limits::ROTATION_MS)
                || description.schedule.bytes == Some(0) =>
            {
                Err(format!("a session rotates every {} ms at most, or at some bytes", limits::ROTATION_MS))
            }
            () if channels
                .iter()
                .enumerate()
                .any(|(at, one)| channels[..at].iter().any(|other| other.name == one.name)) =>
            {
                Err("two channels have one name".to_owned())
            }
            () => Ok(description),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        let object = json!({
            "name": "s", "folder": "/tmp/s", "processes": ["17"], "size": 4096, "directory": "/",
        });
        Description::of_object(object).unwrap()
    }

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    #[test]
    fn names_become_names_of_files() {
        for name in ["s", "a-b_c.d", "_", "9", &"x".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", ".a", "-a", "a/b", "a b", "a\n", "ä", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_description_is_what_it_was_as_an_object_again() {
        let mut full = description();
        full.enable(rule("{\"events\": [\"a:*\"], \"filter\": \"n > 1\"}")).unwrap();
        full.disable(None, &["a:b".to_owned()]).unwrap();
        full.add_contexts(None, &[Context::Vtid, Context::CpuId, Context::CgroupId, Context::CallstackUser])
            .unwrap();
        full.budget = Some("1%".to_owned());
        full.options =
            [("overwrite".to_owned(), String::new()), ("stop-on".to_owned(), "n > 1".to_owned())].into();
        for description in [description(), full] {
            assert_eq!(Description::of_object(description.object()), Ok(description));
        }
    }

    #[test]
    fn what_does_not_hold_together_is_refused() {
        let check = |field: &str, value: Value| {
            let mut object = description().object();
            object[field] = value;
            assert!(Description::of_object(object).is_err(), "{field}");
        };
        check("name", json!("../s"));
        check("name", json!(7));
        check("folder", json!("s"));
        check("directory", json!("s"));
        check("processes", json!([]));
        check("processes", json!("17"));
        check("rules", json!([{}]));
        check("contexts", json!(["weather"]));
        check("size", json!(-1));
        check("follow", json!("yes"));
        check("options", json!(["overwrite"]));
        check("rotate_every_ms", json!(10));
        check("rotate_bytes", json!(0));
        check("rotate_bytes", json!("1M"));
        check("options", json!({"overwrite": 1}));
        check("options", json!({"output": "/"}));
        check("colour", json!("red"));
    }

    #[test]
    fn events_are_enabled_once_and_disabled_by_name() {
        let mut s = description();
        s.enable(rule("{\"events\": [\"a:*\", \"b:c\"]}")).unwrap();
        assert!(s.enable(rule("{\"events\": [\"b:c\"]}")).unwrap_err().contains("enabled already"));
        s.enable(rule("{\"events\": [\"b:c\"], \"filter\": \"n == 1\"}")).unwrap();
        assert_eq!(s.rules.len(), 2);
        assert!(s.disable(None, &["c:d".to_owned()]).unwrap_err().contains("a:*, b:c, b:c is"));
        assert!(s.disable(None, &["usdt:x:a:x".to_owned()]).is_err());
        s.disable(None, &["a:x".to_owned()]).unwrap();
        assert_eq!(s.disabled, ["a:x"]);
        assert!(s.disable(None, &["a:x".to_owned()]).is_err());
        s.enable(rule("{\"events\": [\"a:x\"]}")).unwrap();
        assert!(s.disabled.is_empty());
        s.disable(None, &["b:c".to_owned()]).unwrap();
        assert_eq!(s.enabled().collect::<Vec<_>>(), ["a:*", "a:x"]);
        s.disable(None, &["a:*".to_owned(), "a:x".to_owned()]).unwrap();
        assert!(s.rules.is_empty());
    }

    #[test]
    fn a_channel_has_events_of_its_own() {
        let mut s = description();
        let channel = |name: &str| Channel::of_object(json!({"name": name, "size": 4096})).unwrap();
        s.enable_channel(channel("c")).unwrap();
        s.enable_channel(channel("d")).unwrap();
        assert!(s.enable_channel(channel("c")).unwrap_err().contains("already"));
        assert!(s.enable(rule("{\"events\": [\"a:*\"], \"channel\": \"e\"}")).is_err());
        for text in [
            "{\"events\": [\"a:*\"], \"channel\": \"c\"}",
            "{\"events\": [\"a:*\", \"a:x\"], \"channel\": \"d\"}",
        ] {
            s.enable(rule(text)).unwrap();
        }
        s.add_contexts(None, &[Context::Vtid]).unwrap();
        s.add_contexts(Some("d"), &[Context::Vpid]).unwrap();
        s.disable(Some("c"), &["a:x".to_owned()]).unwrap();
        assert!(s.disable(Some("c"), &["a:x".to_owned()]).is_err() && s.disable(Some("e"), &[]).is_err());
        assert_eq!(s.recorded_channels(), [Some("c".to_owned()), Some("d".to_owned())]);
        let c = s.of_channel(Some("c"), "/c".into());
        assert_eq!((&c.rules[0].exclude[..], c.rules.len(), c.size), (&["a:x".to_owned()][..], 1, 4096));
        let d = s.of_channel(Some("d"), "/d".into());
        assert!(d.options.contains_key(PART) && c.options.contains_key(PART));
        assert!(d.rules[0].exclude.is_empty() && d.contexts == [Context::Vtid, Context::Vpid]);
        s.disable_channel("d").unwrap();
        assert_eq!(s.recorded_channels(), [Some("c".to_owned())]);
        assert_eq!(Description::of_object(s.object()), Ok(s));
    }

    #[test]
    fn no_value_becomes_an_option() {
        let mut s = description();
        s.processes = vec!["--follow".to_owned()];
        s.units = vec!["-q".to_owned()];
        s.options = [("overwrite".to_owned(), String::new()), ("run".to_owned(), "-q".to_owned())].into();
        let arguments = s.arguments(3, Path::new("/run/x"), None);
        let arguments: Vec<&str> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
        let wanted = [
            "record",
            "--tended=/run/x",
            "--tended-as=s",
            "--output=/tmp/s/3",
            "--size=4096",
            "--pid=--follow",
            "--unit=-q",
            "--overwrite",
            "--run=-q",
        ];
        assert_eq!(arguments, wanted);
        assert_eq!(
            (s.overwrites(), s.keeps_what_is_left(), &s.shown_options()[..]),
            (true, false, "--run -q")
        );
    }
}
