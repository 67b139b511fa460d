//! Objects of JSON from outside, field by field: of the type that is wanted, within bounds, and no field that nobody has asked for.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use weir_process::Follow;

use crate::limits;

/// An object whose fields are taken out of it.
pub(crate) struct Object {
    fields: Map<String, Value>,
    what: &'static str,
}

impl Object {
    /// `what` it should be, for what is told.
    pub(crate) fn of(value: Value, what: &'static str) -> Result<Object, String> {
        match value {
            Value::Object(fields) => Ok(Object { fields, what }),
            _ => Err(format!("{what} is no object")),
        }
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<String, String> {
        self.text_or_none(name)?.ok_or(format!("{} has no `{name}`", self.what))
    }

    pub(crate) fn text_or_none(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.fields.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => self.checked(name, value).map(Some),
        }
    }

    /// An empty one where there is none.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<String>, String> {
        let values = self.values(name)?;
        values.into_iter().map(|value| self.checked(name, value)).collect()
    }

    /// None where there is no such field.
    pub(crate) fn texts_if_any(&mut self, name: &str) -> Result<Option<Vec<String>>, String> {
        self.fields.contains_key(name).then(|| self.texts(name)).transpose()
    }

    pub(crate) fn values(&mut self, name: &str) -> Result<Vec<Value>, String> {
        match self.fields.remove(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) if values.len() <= limits::LIST => Ok(values),
            Some(Value::Array(values)) => Err(format!(
                "`{name}` of {} has {} elements, the limit is {}",
                self.what,
                values.len(),
                limits::LIST
            )),
            Some(_) => Err(format!("`{name}` of {} is no list", self.what)),
        }
    }

    /// An object whose fields are texts; an empty one where there is none.
    pub(crate) fn texts_by_name(&mut self, name: &str) -> Result<BTreeMap<String, String>, String> {
        match self.fields.remove(name) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(fields)) if fields.len() <= limits::LIST => {
                fields.into_iter().map(|(field, value)| Ok((field, self.checked(name, value)?))).collect()
            }
            Some(_) => Err(format!("`{name}` of {} is no object of texts", self.what)),
        }
    }

    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name)
    }

    pub(crate) fn is(&mut self, name: &str) -> Result<bool, String> {
        match self.fields.remove(name) {
            None => Ok(false),
            Some(Value::Bool(is)) => Ok(is),
            Some(_) => Err(format!("`{name}` of {} is neither true nor false", self.what)),
        }
    }

    /// Neither, or true, or how.
    pub(crate) fn follow(&mut self, name: &str) -> Result<Follow, String> {
        match self.fields.get(name) {
            Some(Value::String(how)) => {
                let how = how.parse();
                self.fields.remove(name);
                how
            }
            _ => Ok(if self.is(name)? { Follow::Held } else { Follow::No }),
        }
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<u64, String> {
        let number = self.fields.remove(name).and_then(|value| value.as_u64());
        number.ok_or(format!("`{name}` of {} is no natural number", self.what))
    }

    pub(crate) fn number_or_none(&mut self, name: &str) -> Result<Option<u64>, String> {
        match self.fields.get(name) {
            None | Some(Value::Null) => {
                self.fields.remove(name);
                Ok(None)
            }
            Some(_) => self.number(name).map(Some),
        }
    }

    /// Nothing else may be in it.
    pub(crate) fn end(self) -> Result<(), String> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{} has no field `{}`", self.what, name.escape_debug())),
        }
    }

    fn checked(&self, name: &str, value: Value) -> Result<String, String> {
        match value {
            Value::String(text) if text.contains('\0') => {
                Err(format!("`{name}` of {} has a zero", self.what))
            }
            Value::String(text) if text.len() > limits::TEXT_BYTES => Err(format!(
                "`{name}` of {} has {} bytes, the limit is {}",
                self.what,
                text.len(),
                limits::TEXT_BYTES
            )),
            Value::String(text) => Ok(text),
            _ => Err(format!("`{name}` of {} is no text", self.what)),
        }
    }
}
