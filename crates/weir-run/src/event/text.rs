//! A filter's text, and what it is at an event.
//!
//! The text is read once. At each event the fields that it names are looked up first: one that cannot be read there is a fault
//! at its place, and 8 bytes of unknown meaning that are compared with a string are the address of one. Then the filter is
//! compiled against the event's schema, and its slots become what the fields are at the place.

use std::collections::BTreeSet;

use weir_event::schema::{Field, Schema, Type};
use weir_filter::Dialect;
use weir_filter::usage::{self, FieldUse};
use weir_ir::{FoundArgument, FoundField, Module};
use weir_source::{Diagnostic, SourceFile};

use crate::event::Event;
use crate::failure::Failure;

/// A filter that can be read.
#[derive(Debug)]
pub struct Text {
    /// As it was given, for messages that show it.
    pub source: SourceFile,
    dialect: Dialect,
    uses: Vec<FieldUse>,
}

/// What a filter sees of an event.
#[derive(Debug)]
pub struct Offer {
    /// The fields that it names have the first slots.
    pub schema: Schema,
    /// By slot.
    pub arguments: Vec<FoundArgument>,
    /// Fields that it names.
    pub used: usize,
}

impl Text {
    /// A filter that messages call `<filter>`. An error where it cannot be read.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Text, Failure> {
        Text::parse_as("<filter>", text, dialect)
    }

    /// `name`: what messages call it.
    pub fn parse_as(name: &str, text: &str, dialect: Dialect) -> Result<Text, Failure> {
        let source = SourceFile { name: name.to_owned(), text: text.to_owned() };
        match weir_filter::parse(text) {
            Ok(ast) => Ok(Text { uses: usage::fields(&ast), source, dialect }),
            Err(fault) => Err(Failure::Text(source, vec![fault])),
        }
    }

    /// The filter as it runs at an event, optimised, with the maps of its state; and warnings.
    pub fn at(&self, event: &Event) -> Result<(Module, Vec<Diagnostic>), Vec<Diagnostic>> {
        let offer = self.offer(event)?;
        let (mut module, warnings) = self.compile(&offer)?;
        module.functions[0] = weir_ir::filter::at(&module.functions[0], &offer.arguments);
        weir_ir::pass::optimise(&mut module);
        Ok((module, warnings))
    }

    /// Whether the event has every field that it names.
    pub fn has_fields(&self, event: &Event) -> bool {
        self.uses.iter().all(|mention| event.field(&mention.name).is_some())
    }

    /// The filter on the slots of what an event offers, optimised; and warnings.
    pub fn compile(&self, offer: &Offer) -> Result<(Module, Vec<Diagnostic>), Vec<Diagnostic>> {
        let (mut module, warnings) = weir_filter::compile(&self.source.text, self.dialect, &offer.schema)?;
        weir_ir::pass::optimise(&mut module);
        Ok((module, warnings))
    }

    /// The event's schema, for this filter.
    pub fn offer(&self, event: &Event) -> Result<Offer, Vec<Diagnostic>> {
        let mut names = BTreeSet::new();
        let (mut fields, mut faults): (Vec<FoundField>, Vec<Diagnostic>) = (Vec::new(), Vec::new());
        for mention in &self.uses {
            // What is not there is the filter's own fault, told with what is.
            let Some(mut field) = event.field(&mention.name) else { continue };
            if !names.insert(mention.name.clone()) {
                continue;
            }
            let places = [Some(&field.argument), field.count.as_ref()].into_iter().flatten();
            if let Some(reason) = places.filter_map(|argument| argument.place.as_ref().err()).next() {
                let message = format!("`{}` cannot be read: {reason}", mention.name);
                let hint =
                    "integers, addresses, enumerations and strings in registers or on the stack can be";
                faults.push(Diagnostic::error(mention.span, message).with_hint(hint));
            }
            let is_text = |other: &FieldUse| other.name == mention.name && other.is_text;
            // What a tracepoint vouches for is asked of where a register has its address: elsewhere that is read as any.
            let is_elsewhere = field.ty == Type::Text && field.argument.whole_slot().is_none();
            if is_elsewhere || field.may_be_text && self.uses.iter().any(is_text) {
                field.ty = Type::Str;
            }
            fields.push(field);
        }
        let used = fields.len();
        let slots: usize = fields.iter().map(slots_of).sum();
        if slots > usize::from(weir_ir::limits::SLOTS) {
            let most = weir_ir::limits::SLOTS;
            let message = format!("the filter names fields of {slots} slots, the limit is {most}");
            faults.push(
                Diagnostic::error(self.uses[0].span, message).with_hint("split it into several filters"),
            );
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        fields.extend(event.shown().into_iter().filter(|field| !names.contains(&field.name)));
        let mut schema = Schema { event: event.name.clone(), ..Schema::default() };
        let mut arguments = Vec::new();
        for FoundField { name, ty, argument, count, form, .. } in fields {
            schema.fields.push(Field { name, ty, slot: arguments.len() as u8, form });
            arguments.push(argument);
            arguments.extend(count);
        }
        Ok(Offer { schema, arguments, used })
    }
}

fn slots_of(field: &FoundField) -> usize {
    1 + usize::from(field.count.is_some())
}

/// What is said of a filter at several events, each thing once: of events of which the same is said, the first is named.
#[derive(Debug, Default)]
pub struct Told {
    said: Vec<Diagnostic>,
    /// The same, with the event.
    pub diagnostics: Vec<Diagnostic>,
}

/// Diagnostics that are kept; the ones after it help nobody.
const TOLD_MAX: usize = 20;

impl Told {
    /// What is wrong with the filter at one event: each fault once, whatever number of events has it.
    pub fn add(&mut self, diagnostics: Vec<Diagnostic>, event: &Event) {
        for diagnostic in diagnostics {
            if self.said.len() < TOLD_MAX && !self.said.contains(&diagnostic) {
                let message = format!("{} ({})", diagnostic.message, event.name);
                self.diagnostics.push(Diagnostic { message, ..diagnostic.clone() });
                self.said.push(diagnostic);
            }
        }
    }
}
