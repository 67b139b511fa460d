//! Which fields nobody wants to see: those that have a role or are a clock's, unless a shown field refers to them, and structures of
//! nothing else. Headers of packets and events are read and not shown. As babeltrace2 does it, whose output this crate's users compare.

use std::collections::HashSet;

use crate::class::{
    Array, Choice, EventClass, Field, FieldClass, Length, Reference, Scope, Sequence, StreamClass, TraceClass,
};
use crate::path::Path;

/// Sets [`Field::is_hidden`] everywhere.
pub(crate) fn hide(trace: &mut TraceClass) {
    let mut referenced = HashSet::new();
    for stream in &trace.streams {
        for (_, field) in stream_scopes(stream) {
            collect(&field.class, &mut referenced);
        }
        for event in &stream.events {
            for (_, field) in event_scopes(event) {
                collect(&field.class, &mut referenced);
            }
        }
    }
    trace.packet_header.as_mut().into_iter().for_each(conceal_wholly);
    for stream in &mut trace.streams {
        stream.event_header.as_mut().into_iter().for_each(conceal_wholly);
        let scopes = [
            (Scope::PacketContext, &mut stream.packet_context),
            (Scope::CommonContext, &mut stream.common_context),
        ];
        conceal_all(scopes, &referenced);
        for event in &mut stream.events {
            let mut own = HashSet::new();
            event_scopes(event).for_each(|(_, field)| collect(&field.class, &mut own));
            let scopes =
                [(Scope::SpecificContext, &mut event.specific_context), (Scope::Payload, &mut event.payload)];
            conceal_all(scopes, &own);
        }
    }
}

/// The scopes that all events of a stream share, in the order of the bytes.
pub(crate) fn stream_scopes(stream: &StreamClass) -> impl Iterator<Item = (Scope, &Field)> {
    let scopes = [
        (Scope::PacketContext, &stream.packet_context),
        (Scope::EventHeader, &stream.event_header),
        (Scope::CommonContext, &stream.common_context),
    ];
    scopes.into_iter().filter_map(|(scope, field)| Some((scope, field.as_ref()?)))
}

pub(crate) fn event_scopes(event: &EventClass) -> impl Iterator<Item = (Scope, &Field)> {
    let scopes = [(Scope::SpecificContext, &event.specific_context), (Scope::Payload, &event.payload)];
    scopes.into_iter().filter_map(|(scope, field)| Some((scope, field.as_ref()?)))
}

/// What the class refers to.
pub(crate) fn collect(class: &FieldClass, referenced: &mut HashSet<Reference>) {
    match class {
        FieldClass::Struct(of) => of.fields.iter().for_each(|field| collect(&field.class, referenced)),
        FieldClass::Array(Array { element, .. }) => collect(element, referenced),
        FieldClass::Sequence(Sequence { element, length, .. }) => {
            if !referenced.contains(length) {
                referenced.insert(length.clone());
            }
            collect(element, referenced);
        }
        FieldClass::Variant(of) => {
            referenced.insert(of.selector.clone());
            of.options.iter().for_each(|choice| collect(&choice.field.class, referenced));
        }
        FieldClass::Optional(of) => {
            referenced.insert(of.selector.clone());
            collect(&of.field, referenced);
        }
        FieldClass::Wide(of) => {
            if let Length::Dynamic(length) = &of.length {
                referenced.insert(length.clone());
            }
        }
        FieldClass::Int(_)
        | FieldClass::Enum(_)
        | FieldClass::Bool(_)
        | FieldClass::Flags(_)
        | FieldClass::Float(_)
        | FieldClass::Str => {}
    }
}

fn conceal_all<const N: usize>(scopes: [(Scope, &mut Option<Field>); N], referenced: &HashSet<Reference>) {
    for (scope, field) in scopes {
        if let Some(field) = field {
            let mut path = Path::new(scope);
            field.is_hidden = conceal(&mut field.class, &mut path, referenced);
        }
    }
}

/// Whether all of it is hidden. `path`: where it is.
fn conceal(class: &mut FieldClass, path: &mut Path, referenced: &HashSet<Reference>) -> bool {
    match class {
        FieldClass::Int(int) | FieldClass::Enum(crate::class::Enum { int, .. }) => {
            (int.clock.is_some() || int.role.is_some()) && !path.forms().any(|form| referenced.contains(form))
        }
        FieldClass::Struct(of) => {
            of.fields.iter_mut().for_each(|field| conceal_field(field, path, referenced));
            !of.fields.is_empty() && of.fields.iter().all(|field| field.is_hidden)
        }
        FieldClass::Variant(of) => {
            for Choice { field, .. } in &mut of.options {
                path.enter_option(&field.name);
                field.is_hidden = conceal(&mut field.class, path, referenced);
                path.leave_option();
            }
            let is_hidden = of.options.iter().all(|choice| choice.field.is_hidden);
            // One of those that are shown may be chosen, and so may each other.
            of.options.iter_mut().for_each(|choice| choice.field.is_hidden = is_hidden);
            is_hidden
        }
        FieldClass::Array(Array { is_uuid: true, .. }) => true,
        FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
            conceal(element, path, referenced)
        }
        FieldClass::Optional(of) => conceal(&mut of.field, path, referenced),
        FieldClass::Bool(_)
        | FieldClass::Flags(_)
        | FieldClass::Float(_)
        | FieldClass::Str
        | FieldClass::Wide(_) => false,
    }
}

/// A header: with everything in it.
fn conceal_wholly(field: &mut Field) {
    fn below(class: &mut FieldClass) {
        match class {
            FieldClass::Struct(of) => of.fields.iter_mut().for_each(conceal_wholly),
            FieldClass::Variant(of) => {
                of.options.iter_mut().for_each(|choice| conceal_wholly(&mut choice.field))
            }
            FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
                below(element)
            }
            FieldClass::Optional(of) => below(&mut of.field),
            FieldClass::Int(_)
            | FieldClass::Enum(_)
            | FieldClass::Bool(_)
            | FieldClass::Flags(_)
            | FieldClass::Float(_)
            | FieldClass::Str
            | FieldClass::Wide(_) => {}
        }
    }
    field.is_hidden = true;
    below(&mut field.class);
}

fn conceal_field(field: &mut Field, path: &mut Path, referenced: &HashSet<Reference>) {
    path.enter(&field.name);
    field.is_hidden = conceal(&mut field.class, path, referenced);
    path.leave();
}
