//! The event that asked for a command last, with its fields.
//!
//! In: records that are marked ([`weir_event::recorded::MARK`]), as they are read. Out: the newest of them, and the variables that a command has of it.

use std::collections::BTreeMap;

use weir_event::schema::Schema;
use weir_report::fields::texts;
use weir_trace::write::layout;

/// How names of variables begin that are fields.
pub(crate) const FIELD: &str = "WEIR_FIELD_";

/// Most bytes of a field's text: all variables together are far below what the kernel takes.
const TEXT_BYTES_MAX: usize = 4096;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Captured {
    /// Its number.
    pub(crate) event: u32,
    /// ns of CLOCK_MONOTONIC.
    pub(crate) time: u64,
    fields: Vec<u8>,
}

impl Captured {
    /// Takes the record's place in `newest`, if it is newer. Rings are read one after the other, so it need not be.
    pub(crate) fn note(newest: &mut Option<Captured>, event: u32, time: u64, fields: &[u8]) {
        let newest = newest.get_or_insert_default();
        if time >= newest.time {
            (newest.event, newest.time) = (event, time);
            newest.fields.clear();
            newest.fields.extend_from_slice(fields);
        }
    }

    /// The fields of the event, of which the first so many are context: named as in the trace. One of its own hides a context of the same name.
    pub(crate) fn variables(&self, event: &Schema, context_fields: usize) -> BTreeMap<String, Vec<u8>> {
        let (context, own) = event.fields.split_at(context_fields);
        let names = layout::names(context).into_iter().chain(layout::names(own));
        let texts = texts(&event.fields, &self.fields).into_iter().map(cut);
        names.map(|name| format!("{FIELD}{name}")).zip(texts).collect()
    }
}

/// Not within a character, where it is one of UTF-8.
fn cut(mut text: Vec<u8>) -> Vec<u8> {
    if text.len() > TEXT_BYTES_MAX {
        let begins = |at: &usize| text[*at] & 0xc0 != 0x80;
        let end = (TEXT_BYTES_MAX - 3..=TEXT_BYTES_MAX).rev().find(begins).unwrap_or(TEXT_BYTES_MAX);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_event::schema::{Field, Form, Type};

    use super::*;

    fn field(name: &str, ty: Type) -> Field {
        Field { name: name.to_owned(), ty, slot: 0, form: Form::Decimal }
    }

    #[test]
    fn the_newest_stays() {
        let mut newest = None;
        for (event, time, fields) in [(1, 20, "b"), (2, 10, "a"), (3, 20, "c"), (4, 19, "d")] {
            Captured::note(&mut newest, event, time, fields.as_bytes());
        }
        assert_eq!(newest, Some(Captured { event: 3, time: 20, fields: b"c".to_vec() }));
    }

    #[test]
    fn fields_are_named_as_in_the_trace() {
        let int = Type::Int { bytes: 1, signed: false };
        let names = ["vtid", "cpu_id", "a", "a", "b.c", "vtid"];
        let fields = names.iter().map(|name| field(name, int.clone())).collect();
        let event = Schema { fields, ..Schema::default() };
        let captured = Captured { fields: vec![1, 2, 3, 4, 5, 6], ..Captured::default() };
        let variables = captured.variables(&event, 2);
        let shown: Vec<String> = variables
            .iter()
            .map(|(name, text)| format!("{name}={}", String::from_utf8_lossy(text)))
            .collect();
        assert_eq!(
            shown,
            [
                "WEIR_FIELD_a=3",
                "WEIR_FIELD_a_2=4",
                "WEIR_FIELD_b_c=5",
                "WEIR_FIELD_cpu_id=2",
                "WEIR_FIELD_vtid=6"
            ]
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let check = |text: &str, wanted: usize| assert_eq!(cut(text.as_bytes().to_vec()).len(), wanted);
        check(&"a".repeat(4096), 4096);
        check(&"a".repeat(9000), 4096);
        check(&format!("{}{}", "a".repeat(4095), "é".repeat(9)), 4095);
        check(&format!("{}{}", "a".repeat(4093), "\u{1f600}".repeat(9)), 4093);
        assert_eq!(cut(vec![0x80; 5000]).len(), 4096);
    }
}
