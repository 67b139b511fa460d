//! The arguments of a static probe as `weir list -v` shows them: `uint32 customer 4@%eax, string article 8@%rdi`.
//!
//! In: a place. Out: for each field its type, its name and where it is; the file's own text of each argument where it
//! does not say what it is.

use weir_event::schema::{Field, Form, Type};
use weir_symbols::StaticProbe;
use weir_symbols::usdt::Argument;
use weir_ust::Event;

/// All of them, with commas.
pub(super) fn arguments(probe: &StaticProbe) -> String {
    let texts: Vec<String> = match &probe.schema {
        None => probe.arguments.iter().map(ToString::to_string).collect(),
        Some(schema) => schema.fields.iter().map(|field| described(field, &probe.arguments)).collect(),
    };
    texts.join(", ")
}

fn described(field: &Field, arguments: &[Argument]) -> String {
    let slots = if matches!(field.ty, Type::Sequence { .. }) { 2 } else { 1 };
    let from = usize::from(field.slot);
    let places: Vec<String> = arguments[from..from + slots].iter().map(place).collect();
    format!("{} {} {}", type_of(&field.ty, field.form), field.name, places.join(" "))
}

/// Those of an event of LTTng-UST: `int32 customer, string note`.
pub(super) fn of_event(event: &Event) -> String {
    let texts: Vec<String> = event.fields.iter().map(of_ust).collect();
    texts.join(", ")
}

fn of_ust(field: &weir_ust::Field) -> String {
    let ty = match &field.ty {
        Ok(ty) => type_of(ty, field.form),
        Err(why) => format!("({why})"),
    };
    let order = if field.is_swapped { "network " } else { "" };
    let hidden = if field.is_hidden { " (for filters alone)" } else { "" };
    format!("{order}{ty} {}{hidden}", field.name)
}

fn place(argument: &Argument) -> String {
    match &argument.operand {
        Ok(_) => argument.text.clone(),
        Err(reason) => format!("{} (cannot be read: {reason})", argument.text),
    }
}

/// `int32`, `hex uint64`, `double`, `string`, `uint8[16]`, `text[]`, `int32 {RED = 0, rest = 1..9}`, `struct {int32 x}`.
fn type_of(ty: &Type, form: Form) -> String {
    let hex = if form.is_hexadecimal() { "hex " } else { "" };
    match ty {
        Type::Int { bytes, signed } => {
            format!("{hex}{}int{}", if *signed { "" } else { "u" }, 8 * u32::from(*bytes))
        }
        Type::Float { bytes: 4 } => "float".to_owned(),
        Type::Float { .. } => "double".to_owned(),
        Type::Str | Type::Text => "string".to_owned(),
        Type::Array { count, .. } if form == Form::Text => format!("text[{count}]"),
        Type::Sequence { .. } if form == Form::Text => "text[]".to_owned(),
        Type::Array { element, count } => format!("{}[{count}]", type_of(element, form)),
        Type::Sequence { element } => format!("{}[]", type_of(element, form)),
        Type::Stack { .. } => "addresses".to_owned(),
        Type::Enum { bytes, signed, labels } => {
            let labels: Vec<String> = labels.iter().map(label).collect();
            let integer = Type::Int { bytes: *bytes, signed: *signed };
            format!("{} {{{}}}", type_of(&integer, form), labels.join(", "))
        }
        Type::Struct { fields } => {
            let members = fields.iter().map(|(name, _, ty)| format!("{} {name}", type_of(ty, form)));
            format!("struct {{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

fn label((name, first, last): &(String, i64, i64)) -> String {
    if first == last { format!("{name} = {first}") } else { format!("{name} = {first}..{last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(bytes: u8, signed: bool) -> Type {
        Type::Int { bytes, signed }
    }

    #[track_caller]
    fn check(ty: Type, form: Form, expected: &str) {
        assert_eq!(type_of(&ty, form), expected);
    }

    #[test]
    fn types_are_shown_as_words() {
        check(int(1, true), Form::Decimal, "int8");
        check(int(8, false), Form::Hexadecimal, "hex uint64");
        check(Type::Float { bytes: 4 }, Form::Decimal, "float");
        check(Type::Float { bytes: 8 }, Form::Decimal, "double");
        check(Type::Str, Form::Decimal, "string");
        check(Type::Text, Form::Decimal, "string");
        check(Type::Array { element: Box::new(int(2, true)), count: 3 }, Form::Decimal, "int16[3]");
        check(Type::Sequence { element: Box::new(int(1, false)) }, Form::Hexadecimal, "hex uint8[]");
        check(Type::Sequence { element: Box::new(int(1, true)) }, Form::Text, "text[]");
        let labels = vec![("RED".to_owned(), 0, 0), ("rest".to_owned(), -1, 9)];
        let colors = Type::Enum { bytes: 4, signed: true, labels };
        check(colors, Form::Decimal, "int32 {RED = 0, rest = -1..9}");
        let members = vec![("x".to_owned(), 0, int(4, true)), ("z".to_owned(), 8, Type::Float { bytes: 8 })];
        check(Type::Struct { fields: members }, Form::Decimal, "struct {int32 x, double z}");
    }
}
