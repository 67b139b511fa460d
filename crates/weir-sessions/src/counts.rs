//! What a recording has recorded so far, as its file says it to the daemon; and the sum of several.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::object::Object;

/// What a session has recorded so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// By name, those of which anything came.
    pub events: BTreeMap<String, OfEvent>,
    /// All that was lost, by whatever event.
    pub discarded: u64,
    /// Of fields.
    pub bytes: u64,
    /// Of a flight recorder.
    pub snapshots: u64,
    /// Nothing is recorded until an event starts that.
    pub is_waiting: bool,
    /// The trace, or a snapshot, could not be written to the end.
    pub has_failed: bool,
    /// The recording has ended: there will not be more.
    pub is_over: bool,
}

/// Records of an event; those that the ring had no room for; texts and sequences that were cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OfEvent {
    /// Those in the trace.
    pub recorded: u64,
    /// Those that the ring had no room for.
    pub discarded: u64,
    /// Texts and sequences of which the end is missing.
    pub cut: u64,
}

impl Counts {
    /// Of all events.
    pub fn recorded(&self) -> u64 {
        self.events.values().map(|of| of.recorded).sum()
    }

    /// Another recording of the same session.
    pub fn add(&mut self, other: &Counts) {
        for (name, more) in &other.events {
            let sum = self.events.entry(name.clone()).or_default();
            sum.recorded = sum.recorded.saturating_add(more.recorded);
            sum.discarded = sum.discarded.saturating_add(more.discarded);
            sum.cut = sum.cut.saturating_add(more.cut);
        }
        self.discarded = self.discarded.saturating_add(other.discarded);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.snapshots = self.snapshots.saturating_add(other.snapshots);
        self.is_waiting = other.is_waiting;
        self.has_failed |= other.has_failed;
    }

    /// As JSON, for the protocol and the files of counts and of state.
    pub fn object(&self) -> Value {
        let of = |of: &OfEvent| json!([of.recorded, of.discarded, of.cut]);
        let events: serde_json::Map<String, Value> =
            self.events.iter().map(|(name, counts)| (name.clone(), of(counts))).collect();
        let Counts { discarded, bytes, snapshots, is_waiting, has_failed, is_over, .. } = self;
        json!({
            "events": events,
            "discarded": discarded,
            "bytes": bytes,
            "snapshots": snapshots,
            "waiting": is_waiting,
            "failed": has_failed,
            "over": is_over,
        })
    }

    /// The same back, or what is wrong with it.
    pub fn of_object(value: Value) -> Result<Counts, String> {
        let mut object = Object::of(value, "a recording's counts")?;
        let Some(Value::Object(events)) = object.value("events") else {
            return Err("a recording's counts are of events".to_owned());
        };
        let of = |counts: Value| -> Option<OfEvent> {
            let counts = counts.as_array()?;
            let count = |at: usize| counts.get(at)?.as_u64();
            Some(OfEvent { recorded: count(0)?, discarded: count(1)?, cut: count(2)? })
        };
        let events: Option<BTreeMap<String, OfEvent>> =
            events.into_iter().map(|(name, counts)| Some((name, of(counts)?))).collect();
        let counts = Counts {
            events: events.ok_or("counts of an event are three numbers")?,
            discarded: object.number("discarded")?,
            bytes: object.number("bytes")?,
            snapshots: object.number("snapshots")?,
            is_waiting: object.is("waiting")?,
            has_failed: object.is("failed")?,
            is_over: object.is("over")?,
        };
        object.end()?;
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_are_what_they_were_as_an_object_again() {
        let one = OfEvent { recorded: 3, discarded: 1, cut: 0 };
        let first = Counts {
            events: [("a:b".to_owned(), one)].into(),
            discarded: 2,
            bytes: 30,
            snapshots: 3,
            ..Counts::default()
        };
        let mut sum = Counts { is_over: true, ..first.clone() };
        sum.add(&first);
        assert_eq!((sum.recorded(), sum.events["a:b"].discarded, sum.discarded, sum.bytes), (6, 2, 4, 60));
        assert_eq!(sum.snapshots, 6);
        for counts in [first, sum] {
            assert_eq!(Counts::of_object(counts.object()), Ok(counts));
        }
        assert!(Counts::of_object(json!({"events": {"a": [1]}, "discarded": 0, "bytes": 0})).is_err());
        assert!(Counts::of_object(json!({"events": {}, "discarded": 0})).is_err());
    }
}
