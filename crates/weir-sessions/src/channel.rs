//! A channel of a session: rings of their own for the events that are enabled in it.
//!
//! In: what `enable-channel` asks for. Out: a channel that holds together, or why it would not; as an object, for the socket and the state file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::context::Context;
use crate::description::check_name;
use crate::object::Object;

/// What makes a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Part of the name of a folder, as a session's.
    pub name: String,
    /// Bytes of the ring of each CPU.
    pub size: u64,
    /// What else its recordings get ([`CHANNEL_OPTIONS`]), by name; what takes no value has an empty one.
    pub options: BTreeMap<String, String>,
    /// What its events carry besides what all events of the session do.
    pub contexts: Vec<Context>,
    /// Its events are not recorded.
    pub is_disabled: bool,
}

/// The names that [`Channel::options`] may have: options of `weir record` that are of rings and of their files.
pub const CHANNEL_OPTIONS: [&str; 6] =
    ["file-size", "file-count", "blocking", "overwrite", "snapshot-at-end", "snapshots"];

impl Channel {
    /// As JSON.
    pub fn object(&self) -> Value {
        let Channel { name, size, options, contexts, is_disabled } = self;
        json!({
            "name": name,
            "size": size,
            "options": options,
            "contexts": contexts.iter().map(|context| context.name()).collect::<Vec<_>>(),
            "is_disabled": is_disabled,
        })
    }

    /// Whatever it is given: nothing but what [`Channel::object`] makes is taken.
    pub fn of_object(value: Value) -> Result<Channel, String> {
        let mut object = Object::of(value, "a channel")?;
        let contexts: Result<Vec<Context>, String> =
            object.texts("contexts")?.iter().map(|name| name.parse()).collect();
        let channel = Channel {
            name: object.text("name")?,
            size: object.number("size")?,
            options: object.texts_by_name("options")?,
            contexts: contexts?,
            is_disabled: object.is("is_disabled")?,
        };
        object.end()?;
        check_name(&channel.name).map_err(|why| why.replace("session", "channel"))?;
        if channel.name.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("channel {}: folders of recordings have such names", channel.name));
        }
        match channel.options.keys().find(|name| !CHANNEL_OPTIONS.contains(&&name[..])) {
            Some(name) => Err(format!("a channel has no option `{}`", name.escape_debug())),
            None => Ok(channel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_what_it_was_as_an_object_again() {
        let full = Channel {
            name: "c".to_owned(),
            size: 4096,
            options: [("overwrite".to_owned(), String::new())].into(),
            contexts: vec![Context::Vtid],
            is_disabled: true,
        };
        assert_eq!(Channel::of_object(full.object()), Ok(full.clone()));
        let check = |field: &str, value: Value| {
            let mut object = full.object();
            object[field] = value;
            assert!(Channel::of_object(object).is_err(), "{field}");
        };
        check("name", json!("../c"));
        check("name", json!("1"));
        check("size", json!(-1));
        check("options", json!({"run": "rm"}));
        check("contexts", json!(["weather"]));
        check("colour", json!("red"));
    }
}
