//! What is known of each script map: its key, its value, and where that was learnt.

use weir_event::{MapRoom, MapSchema, MapValue, Type};
use weir_source::{Diagnostic, Span};

use crate::ast::{Expr, MapRef};
use crate::check::{Checker, already, describe_key};
use crate::limits;
use crate::types::{self, Ty, describe_map};

/// One map of the script.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MapState {
    pub name: String,
    /// Where it is first named.
    pub first: Span,
    pub key: Key,
    pub key_span: Span,
    /// None until an assignment is understood.
    pub value: Option<MapValue>,
    pub value_span: Span,
    /// Some assignment was seen, understood or not.
    pub assigned: bool,
    pub room: Option<MapRoom>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Key {
    Unknown,
    Scalar,
    Keyed(Type),
}

impl MapState {
    /// As the module has it. The map must be known.
    pub(crate) fn schema(&self) -> MapSchema {
        let key = match &self.key {
            Key::Keyed(ty) => Some(ty.clone()),
            Key::Unknown | Key::Scalar => None,
        };
        // SANITY: `finish` reports a map without a value, and then there is no module.
        let value = self.value.clone().expect("the value of a checked map is known");
        MapSchema { name: self.name.clone(), map_index: 0, key, value, room: self.room }
    }

    /// Where and why key or value are more than a map takes.
    pub(crate) fn too_large(&self) -> Option<(Span, String)> {
        let limit = limits::VALUE_BYTES_MAX;
        let text = |what: &str, bytes: u32| {
            format!("the {what} of `{}` has {bytes} bytes, the limit is {limit}", self.name)
        };
        if let Key::Keyed(ty) = &self.key
            && ty.bytes() > limit
        {
            return Some((self.key_span, text("key", ty.bytes())));
        }
        match &self.value {
            Some(MapValue::Plain(ty)) if ty.bytes() > limit => {
                Some((self.value_span, text("value", ty.bytes())))
            }
            _ => None,
        }
    }
}

impl Checker<'_> {
    /// The map of this name, known from now on. None if there are too many.
    pub(super) fn map_index(&mut self, map: &MapRef) -> Option<usize> {
        if let Some(index) = self.maps.iter().position(|known| known.name == map.name.text) {
            return Some(index);
        }
        if self.maps.len() == limits::MAPS_MAX {
            let message = format!("too many maps: the limit is {}", limits::MAPS_MAX);
            self.error(map.name.span, &message, "use keys instead of several maps");
            return None;
        }
        self.maps.push(MapState {
            name: map.name.text.clone(),
            first: map.name.span,
            key: Key::Unknown,
            key_span: map.name.span,
            value: None,
            value_span: map.name.span,
            assigned: false,
            room: self.rooms.get(&map.name.text).copied(),
        });
        self.changed = true;
        Some(self.maps.len() - 1)
    }

    /// A use of the map's value with the key as written: checks the key's expressions and the key's type.
    pub(super) fn keyed_use(&mut self, map: &MapRef) -> Option<usize> {
        let index = self.map_index(map);
        let key = match map.keys.as_slice() {
            [] => Some(Key::Scalar),
            keys => self.key_type(keys).map(Key::Keyed),
        };
        let index = index?;
        if let Some(key) = key {
            self.learn_key(index, key, map.span);
        }
        Some(index)
    }

    /// A use with the key in a place of its own: `delete(@map, key)`.
    pub(super) fn use_with_key(&mut self, index: Option<usize>, key: &Expr) {
        let ty = self.key_type(std::slice::from_ref(key));
        if let (Some(index), Some(ty)) = (index, ty) {
            self.learn_key(index, Key::Keyed(ty), key.span);
        }
    }

    /// The type of a key. A tuple is the same as its parts with commas between. None if it is not known.
    fn key_type(&mut self, keys: &[Expr]) -> Option<Type> {
        let mut parts = Vec::new();
        for key in keys {
            parts.push(self.value(key).map(|ty| (ty, key.span)));
        }
        let parts = parts.into_iter().collect::<Option<Vec<_>>>()?;
        if let Some((_, span)) = parts.iter().find(|(ty, _)| weir_ir::leaves(ty).contains(&&Type::Double)) {
            let hint = "equal numbers may differ in their bits; cast it: `@[(int64)farg0]`";
            self.error(*span, "not supported by weir yet: doubles as keys of maps", hint);
            return None;
        }
        if let [(ty, _)] = parts.as_slice() {
            return Some(ty.clone());
        }
        let ty = Type::Tuple(parts.into_iter().map(|(ty, _)| ty).collect());
        let leaves = weir_ir::leaves(&ty).len();
        if leaves > limits::TUPLE_LEAVES_MAX {
            let message = format!("the key has {leaves} parts, the limit is {}", limits::TUPLE_LEAVES_MAX);
            self.error(keys[0].span, &message, "use fewer keys");
            return None;
        }
        Some(ty)
    }

    fn learn_key(&mut self, index: usize, key: Key, span: Span) {
        let map = &mut self.maps[index];
        let mut merged = map.key.clone();
        let fits = match (&mut merged, &key) {
            (Key::Unknown, _) => {
                merged = key.clone();
                map.key_span = span;
                true
            }
            (Key::Scalar, Key::Scalar) => true,
            (Key::Keyed(known), Key::Keyed(new)) => types::unify(known, new),
            _ => false,
        };
        if fits {
            self.changed |= merged != map.key;
            map.key = merged;
            return;
        }
        let ty = |key: &Key| match key {
            Key::Keyed(ty) => describe_key(Some(ty), &self.types),
            _ => describe_key(None, &self.types),
        };
        let message = format!("`{}` is used with {}, but it has {}", map.name, ty(&key), ty(&map.key));
        let label = format!("first used with {} here", ty(&map.key));
        let diagnostic = Diagnostic::error(span, message).with_label(map.key_span, label);
        self.push(diagnostic.with_hint("the key of a map must have the same types everywhere"));
    }

    /// An assignment of `value` to the map.
    pub(super) fn learn_value(&mut self, index: usize, value: MapValue, span: Span) {
        let map = &mut self.maps[index];
        map.assigned = true;
        let Some(known) = &map.value else {
            map.value = Some(value);
            map.value_span = span;
            self.changed = true;
            return;
        };
        let merged = match (known, &value) {
            (MapValue::Plain(known), MapValue::Plain(new)) => {
                let mut merged = known.clone();
                types::unify(&mut merged, new).then_some(MapValue::Plain(merged))
            }
            _ if std::mem::discriminant(known) == std::mem::discriminant(&value) => {
                // The first sign stays, as for plain integers; the bounds of lhist must agree.
                let has_bounds = matches!(
                    known,
                    MapValue::Lhist { .. } | MapValue::Hist { .. } | MapValue::Tseries { .. }
                );
                let same_bounds = !has_bounds || *known == value;
                same_bounds.then(|| known.clone())
            }
            _ => None,
        };
        if let Some(merged) = merged {
            self.changed |= merged != *known;
            map.value = Some(merged);
            return;
        }
        let (new, old) = (describe_map(&value, &self.types), describe_map(known, &self.types));
        let (message, hint) = if new == old {
            (
                format!("`{}` has other bounds", map.name),
                "one map has one set of buckets or intervals; use a second map".to_string(),
            )
        } else {
            (
                format!("cannot assign {new} to `{}`, which holds {old}", map.name),
                "a map holds one type of value; use a second map".to_string(),
            )
        };
        let diagnostic =
            Diagnostic::error(span, message).with_label(map.value_span, already(known, &self.types));
        self.push(diagnostic.with_hint(hint));
    }

    /// An assignment that is faulty: the map is not undefined, but no more is known.
    pub(super) fn learn_nothing(&mut self, index: Option<usize>) {
        if let Some(index) = index {
            self.changed |= !self.maps[index].assigned;
            self.maps[index].assigned = true;
        }
    }

    /// The type that reading the map's value gives.
    pub(super) fn map_value(&mut self, map: &MapRef) -> Ty {
        let Some(index) = self.keyed_use(map) else { return Ty::Unknown };
        let Some(value) = self.known_value(index, map.name.span) else { return Ty::Unknown };
        match types::readable(&value) {
            Some(ty) => Ty::Value(ty),
            None => {
                let kind = describe_map(&value, &self.types);
                let message = format!("`{}` holds {kind} and has no single value", map.name.text);
                self.error(map.span, &message, "print it with `print`");
                Ty::Unknown
            }
        }
    }

    /// The types of the map's keys and values, where a `for` can go over it.
    pub(super) fn entry_of(&mut self, map: &MapRef) -> Option<(Type, Type)> {
        let index = self.with_keys(map, "`for` goes over maps with keys")?;
        let value = self.known_value(index, map.name.span)?;
        let Some(ty) = types::readable(&value) else {
            let kind = describe_map(&value, &self.types);
            let message = format!("`{}` holds {kind} and has no single value", map.name.text);
            self.error(
                map.span,
                &message,
                "`for` goes over maps that hold numbers, strings, pointers or tuples",
            );
            return None;
        };
        match &self.maps[index].key {
            Key::Keyed(key) => Some((key.clone(), ty)),
            Key::Unknown | Key::Scalar => None,
        }
    }

    /// A map that must have keys.
    pub(super) fn with_keys(&mut self, map: &MapRef, hint: &str) -> Option<usize> {
        let index = self.map_index(map)?;
        if self.maps[index].key == Key::Scalar {
            let message = format!("`{}` has no keys", map.name.text);
            self.error(map.span, &message, hint);
            return None;
        }
        Some(index)
    }

    /// What the map holds; an error if nothing is ever assigned to it.
    pub(super) fn known_value(&mut self, index: usize, span: Span) -> Option<MapValue> {
        let map = &self.maps[index];
        if map.value.is_none() && !map.assigned && !self.incomplete {
            let message = format!("undefined map: `{}`", map.name);
            let names = self.maps.iter().filter(|m| m.assigned).map(|m| m.name.as_str());
            let hint = match weir_source::nearest(&map.name, names) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "nothing is ever assigned to it".to_string(),
            };
            self.error(span, &message, &hint);
        }
        self.maps[index].value.clone()
    }
}
