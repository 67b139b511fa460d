//! Where a field is, as references write it: CTF 1.8 names the options of variants on the way, CTF 2 does not.
//!
//! In: steps into members and options. Out: both forms. A reference of either kind is found by the other's readers: [`without_options`] makes
//! the second form of the first.

use crate::class::{Array, FieldClass, Optional, Reference, Scope, Sequence};

/// The way to a field.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    full: Reference,
    /// Without the names of options.
    plain: Reference,
}

impl Path {
    pub(crate) fn new(scope: Scope) -> Path {
        let reference = Reference { scope, names: Vec::new() };
        Path { full: reference.clone(), plain: reference }
    }

    pub(crate) fn enter(&mut self, member: &str) {
        self.full.names.push(member.to_owned());
        self.plain.names.push(member.to_owned());
    }

    pub(crate) fn leave(&mut self) {
        self.full.names.pop();
        self.plain.names.pop();
    }

    pub(crate) fn enter_option(&mut self, option: &str) {
        self.full.names.push(option.to_owned());
    }

    pub(crate) fn leave_option(&mut self) {
        self.full.names.pop();
    }

    /// Each form once.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &Reference> {
        let plain = (self.plain.names.len() < self.full.names.len()).then_some(&self.plain);
        std::iter::once(&self.full).chain(plain)
    }

    /// For messages.
    pub(crate) fn shown(&self) -> String {
        self.full.names.join(".")
    }
}

/// The reference without the names of options. `root`: the structure of its scope.
pub(crate) fn without_options(reference: &Reference, root: Option<&FieldClass>) -> Reference {
    let mut names = Vec::new();
    let mut class = root;
    for name in &reference.names {
        class = class.map(inner);
        if let Some(FieldClass::Variant(of)) = class {
            if let Some(choice) = of.options.iter().find(|choice| choice.field.name == *name) {
                class = Some(&choice.field.class);
                continue;
            }
            // It has that form already.
            let mut members = of.options.iter().filter_map(|choice| member(&choice.field.class, name));
            class = members.next();
        } else {
            class = class.and_then(|class| member(class, name));
        }
        names.push(name.clone());
    }
    Reference { scope: reference.scope, names }
}

/// What is in arrays and optional fields is called as they are.
fn inner(class: &FieldClass) -> &FieldClass {
    match class {
        FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
            inner(element)
        }
        FieldClass::Optional(Optional { field, .. }) => inner(field),
        other => other,
    }
}

fn member<'c>(class: &'c FieldClass, name: &str) -> Option<&'c FieldClass> {
    match inner(class) {
        FieldClass::Struct(of) => of.fields.iter().find(|field| field.name == name).map(|field| &field.class),
        _ => None,
    }
}
