//! What is recorded together: events, and what they are chosen by.
//!
//! A command line of `weir record` has one such rule in its flags; a session has one for each `weir record enable`, and hands them to the
//! recording as objects of JSON (`--rule`), whose fields but `events` may be left out:
//! `{"events": ["shop:*"], "exclude": ["shop:tick"], "loglevel": "info", "filter": "total > 100", "dialect": "weir"}`.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};
use weir_event::schema::Level;

use crate::object::Object;
use weir_filter::Dialect;

/// What one `enable` asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// As `-e` takes them.
    pub events: Vec<String>,
    /// Patterns of those that are left out.
    pub exclude: Vec<String>,
    /// Events that matter at least so much.
    pub least: Option<Level>,
    /// Events of this level.
    pub only: Option<Level>,
    /// Events are recorded of which this holds.
    pub filter: Option<String>,
    /// Whose rules hold in the filter.
    pub dialect: Dialect,
    /// Of a session: the channel that they are recorded in; none: the one that has no name.
    pub channel: Option<String>,
}

impl Rule {
    /// Whether both choose among their events in the same way.
    pub fn chooses_like(&self, other: &Rule) -> bool {
        Rule { events: other.events.clone(), ..self.clone() } == *other
    }

    /// As JSON.
    pub fn object(&self) -> Value {
        let Rule { events, exclude, least, only, filter, dialect, channel } = self;
        json!({
            "events": events,
            "exclude": exclude,
            "loglevel": least.map(Level::name),
            "loglevel_only": only.map(Level::name),
            "filter": filter,
            "dialect": dialect.name(),
            "channel": channel,
        })
    }

    /// Whatever it is given: nothing but what [`Rule::object`] makes is taken.
    pub fn of_object(value: Value) -> Result<Rule, String> {
        let mut object = Object::of(value, "a rule")?;
        let mut level = |name: &str| {
            let text = object.text_or_none(name)?;
            text.map(|text| Level::named(&text).ok_or(format!("{name}: there is no such level"))).transpose()
        };
        let (least, only) = (level("loglevel")?, level("loglevel_only")?);
        let dialect = object.text_or_none("dialect")?;
        let dialect = dialect.map_or(Ok(Dialect::Weir), |name| name.parse());
        let rule = Rule {
            events: object.texts("events")?,
            exclude: object.texts("exclude")?,
            least,
            only,
            filter: object.text_or_none("filter")?,
            dialect: dialect.map_err(|why| format!("dialect: {why}"))?,
            channel: object.text_or_none("channel")?,
        };
        object.end()?;
        match rule.events.is_empty() {
            true => Err("a rule without events".to_owned()),
            false => Ok(rule),
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Rule::of_object(value)
    }
}

/// As the command line has it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.events.join(" "))?;
        if let Some(channel) = &self.channel {
            write!(f, " --channel {channel}")?;
        }
        for excluded in &self.exclude {
            write!(f, " -x {excluded}")?;
        }
        if let Some(level) = self.least {
            write!(f, " --loglevel {}", level.name())?;
        }
        if let Some(level) = self.only {
            write!(f, " --loglevel-only {}", level.name())?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " --filter '{filter}'")?;
            if self.dialect == Dialect::Lttng {
                write!(f, " --dialect lttng")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_what_it_was_as_an_object_again() {
        let plain = Rule {
            events: vec!["a:*".to_owned(), "usdt:./x:a:b".to_owned()],
            exclude: Vec::new(),
            least: None,
            only: None,
            filter: None,
            dialect: Dialect::Weir,
            channel: None,
        };
        let full = Rule {
            exclude: vec!["a:c".to_owned()],
            least: Level::named("info"),
            filter: Some("n > 3 && name == \"x\"".to_owned()),
            dialect: Dialect::Lttng,
            channel: Some("c".to_owned()),
            ..plain.clone()
        };
        for rule in [plain, full.clone()] {
            assert_eq!(rule.object().to_string().parse(), Ok(rule));
        }
        let shown = "a:* usdt:./x:a:b --channel c -x a:c --loglevel info --filter 'n > 3 && name == \"x\"' --dialect lttng";
        assert_eq!(full.to_string(), shown);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            "{\"events\": []}",
            "{\"events\": \"a:b\"}",
            "{\"events\": [1]}",
            "{\"events\": [\"a:b\"], \"loglevel\": \"loud\"}",
            "{\"events\": [\"a:b\"], \"dialect\": \"c\"}",
            "{\"events\": [\"a:b\"], \"filter\": 1}",
            "{\"events\": [\"a:b\"], \"colour\": 1}",
            "{\"events\": [\"a\\u0000b\"]}",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}
