//! Sets of processes as JSON: `{"pid": ["17", "18"]}`; an attribute that is not named has no set.

use serde_json::{Map, Value};
use weir_process::tracked::{Attribute, Tracked};

use crate::object::Object;

pub(crate) fn object(tracked: &Tracked) -> Value {
    let sets = tracked.sets().map(|(attribute, values)| {
        let values: Vec<Value> = values.map(Value::from).collect();
        (attribute.to_string(), Value::from(values))
    });
    Value::Object(sets.collect::<Map<String, Value>>())
}

/// Whatever it is given: nothing but what [`object`] makes is taken.
pub(crate) fn of_object(value: Value) -> Result<Tracked, String> {
    let mut object = Object::of(value, "what is tracked")?;
    let mut sets = Vec::new();
    for attribute in Attribute::all() {
        if let Some(values) = object.texts_if_any(&attribute.to_string())? {
            sets.push((attribute, values));
        }
    }
    object.end()?;
    Tracked::of(sets)
}
