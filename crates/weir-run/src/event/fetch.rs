//! Fields of an event that the user names, fetched as ftrace's and perf's probes have it: `name=+0(+8(%si)):string`.
//!
//! In: one word (`FromStr`), and the event at a place ([`Fetched::at`]). Out: a field of that event, which filters know as its own.
//!
//! ```text
//! field   NAME | NAME=fetch[:type]
//! fetch   %REGISTER | argN | retval | NAME | +OFFSET(fetch) | -OFFSET(fetch)
//! type    u8 u16 u32 u64 s8 s16 s32 s64 x8 x16 x32 x64 string
//! ```
//!
//! `+8(fetch)` is what stands 8 bytes behind the address `fetch`; of a string, where it begins. Memory is read safely. Without a type a name has
//! its own, and all else is `x64`.
//!
//! Deliberately not here: symbols, `$stack`, arrays and bit fields; they are refused.

use std::str::FromStr;

use weir_event::schema::{Form, Type};
use weir_ir::isa::native::{REGISTERS, register};
use weir_ir::{FoundArgument, FoundField, Step};

use super::{Event, RESULT};

/// One such field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// As it was given.
    text: String,
    name: String,
    base: Base,
    /// Of each address on the way, from the base on, what is added to it.
    offsets: Vec<i64>,
    shape: Option<Shape>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Base {
    /// By its encoding.
    Register(u8),
    Field(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Number { bytes: u8, signed: bool, form: Form },
    Text,
}

/// LIMIT: addresses on the way to a field.
const OFFSETS_MAX: usize = 8;

impl FromStr for Fetched {
    type Err = String;

    fn from_str(text: &str) -> Result<Fetched, String> {
        let fault = |what: String| format!("field `{text}`: {what}");
        let (name, rest) = text.split_once('=').map_or((text, None), |(name, rest)| (name, Some(rest)));
        if !is_name(name) {
            return Err(fault(format!(
                "`{name}` is no name; a field is NAME, or NAME=FETCH:TYPE as in size=%dx:u32 or name=+0(+8(%si)):string"
            )));
        }
        let (fetch, shape) = rest.map_or((name, None), |rest| match rest.split_once(':') {
            Some((fetch, shape)) => (fetch, Some(shape)),
            None => (rest, None),
        });
        let shape = shape.map(shape_of).transpose().map_err(fault)?;
        let (base, offsets) = path(fetch).map_err(fault)?;
        if shape == Some(Shape::Text) && offsets.is_empty() {
            return Err(fault(format!("a string is at an address: write {name}=+0({fetch}):string")));
        }
        Ok(Fetched { text: text.to_owned(), name: name.to_owned(), base, offsets, shape })
    }
}

impl Fetched {
    /// The field of the event at one place, and how its numbers are shown where the user says so.
    pub fn at(&self, event: &Event) -> Result<(FoundField, Option<Form>), String> {
        let fault = |what: String| format!("field `{}` of {}: {what}", self.text, event.name);
        let found = self.base_at(event).map_err(fault)?;
        let Some(shape) = self.shape.or((!self.offsets.is_empty()).then_some(Shape::ADDRESS)) else {
            let form = matches!(self.base, Base::Register(_)).then_some(Form::Hexadecimal);
            return Ok((FoundField { name: self.name.clone(), ..found }, form));
        };
        let FoundField { argument, .. } = found;
        let (bytes, signed, ty, form) = match shape {
            Shape::Number { bytes, signed, form } => (bytes, signed, Type::Int { bytes, signed }, form),
            Shape::Text => (8, false, Type::Str, Form::Decimal),
        };
        let wanted = if self.offsets.is_empty() { bytes } else { 8 };
        if argument.is_float || argument.bytes < wanted {
            let (has, what) = (argument.bytes, if argument.is_float { "floating-point " } else { "" });
            return Err(fault(format!(
                "it has {has} {what}bytes there, and {wanted} of an integer are wanted"
            )));
        }
        let steps = self.steps(shape);
        let argument = FoundArgument { bytes, signed, steps, ..argument };
        let (name, may_be_text) = (self.name.clone(), bytes == 8 && shape != Shape::Text);
        Ok((FoundField { name, ty, may_be_text, argument, count: None, form, is_hidden: false }, Some(form)))
    }

    fn base_at(&self, event: &Event) -> Result<FoundField, String> {
        let is_return = event.name.starts_with("uretprobe:");
        let name = match (&self.base, is_return) {
            (Base::Field(name), _) => name,
            (Base::Register(RESULT), true) => "retval",
            (Base::Register(_), true) => {
                return Err(
                    "a function's arguments are gone where it returns; there is `retval` (%ax)".to_owned()
                );
            }
            (Base::Register(number), false) => {
                return Ok(super::untyped(String::new(), FoundArgument::register(*number)));
            }
        };
        event.field(name).ok_or_else(|| format!("the event has no field `{name}`; registers are as %di"))
    }

    fn steps(&self, shape: Shape) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, &offset) in self.offsets.iter().enumerate() {
            if offset != 0 {
                steps.push(Step::Plus(offset));
            }
            let is_last = number + 1 == self.offsets.len();
            match shape {
                Shape::Text if is_last => {}
                Shape::Number { bytes, .. } if is_last => steps.push(Step::Read(bytes)),
                _ => steps.push(Step::Read(8)),
            }
        }
        steps
    }
}

impl Shape {
    /// Of what has no type.
    const ADDRESS: Shape = Shape::Number { bytes: 8, signed: false, form: Form::Hexadecimal };
}

fn shape_of(text: &str) -> Result<Shape, String> {
    if text == "string" {
        return Ok(Shape::Text);
    }
    let number = || {
        let (letter, bits) = text.split_at_checked(1)?;
        let bytes = [("8", 1), ("16", 2), ("32", 4), ("64", 8)].iter().find(|known| known.0 == bits)?.1;
        let form = if letter == "x" { Form::Hexadecimal } else { Form::Decimal };
        ["u", "s", "x"].contains(&letter).then_some(Shape::Number { bytes, signed: letter == "s", form })
    };
    number().ok_or_else(|| {
        format!("there is no type `{text}`; there are u8 to u64, s8 to s64, x8 to x64 and string")
    })
}

/// Where a fetch begins, and what is added to each address from there on.
fn path(text: &str) -> Result<(Base, Vec<i64>), String> {
    let (mut rest, mut offsets) = (text, Vec::new());
    while rest.starts_with(['+', '-']) {
        let inside = rest.split_once('(').and_then(|(offset, rest)| Some((offset, rest.strip_suffix(')')?)));
        let (offset, inside) = inside.ok_or_else(|| format!("`{rest}` is not OFFSET(FETCH), as +8(%di)"))?;
        let number = offset_of(offset).ok_or_else(|| format!("`{offset}` is no offset of 32 bits"))?;
        offsets.insert(0, number);
        rest = inside;
    }
    if offsets.len() > OFFSETS_MAX {
        return Err(format!("it goes through {} addresses, the limit is {OFFSETS_MAX}", offsets.len()));
    }
    let base = match rest.strip_prefix('%') {
        Some(register) => Base::Register(register_of(register)?),
        None if is_name(rest) => Base::Field(rest.to_owned()),
        None => {
            return Err(format!(
                "`{rest}` is neither a register (%di), nor an argument (arg0), nor a field, nor OFFSET(FETCH)"
            ));
        }
    };
    Ok((base, offsets))
}

fn register_of(text: &str) -> Result<u8, String> {
    register(text).ok_or_else(|| {
        let all = REGISTERS.map(|(short, _)| format!("%{short}")).join(" ");
        format!("there is no register %{text}; there are {all}")
    })
}

/// With its sign, decimal or hexadecimal.
fn offset_of(text: &str) -> Option<i64> {
    let (sign, digits) = text.split_at_checked(1)?;
    let number = match digits.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => i32::from_str_radix(digits, 16).ok()?,
        None if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        _ => return None,
    };
    (number >= 0).then_some(if sign == "-" { -i64::from(number) } else { number.into() })
}

fn is_name(text: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use weir_ir::ArgumentPlace;

    use super::*;

    fn event(name: &str) -> Event {
        let narrow = FoundArgument { bytes: 4, ..FoundArgument::register(2) };
        let field = FoundField { name: "size".to_owned(), ..super::super::untyped(String::new(), narrow) };
        let numbered = vec![FoundArgument::register(7), FoundArgument::register(6)];
        Event { name: name.to_owned(), named: vec![field], numbered, fetched: Vec::new() }
    }

    fn at(text: &str, name: &str) -> Result<(FoundField, Option<Form>), String> {
        text.parse::<Fetched>()?.at(&event(name))
    }

    #[test]
    fn fields_are_reached_step_by_step() {
        let check =
            |text: &str, register: u8, want_bytes: u8, want: &[Step], want_type: Type, want_form: Form| {
                let (field, form) = at(text, "uprobe:b:f").unwrap_or_else(|fault| panic!("{text}: {fault}"));
                let place = ArgumentPlace::Register { number: register, shift: 0, bits: 64 };
                let FoundArgument { place: found, bytes, steps, .. } = &field.argument;
                assert_eq!((found, *bytes, &steps[..]), (&Ok(place), want_bytes, want), "{text}");
                assert_eq!((&field.ty, form.unwrap_or_default()), (&want_type, want_form), "{text}");
                assert_eq!(Some(field.name.as_str()), text.split('=').next());
            };
        let int = |bytes, signed| Type::Int { bytes, signed };
        check("a=%dx", 2, 8, &[], int(8, false), Form::Hexadecimal);
        check("a=%rdx:s16", 2, 2, &[], int(2, true), Form::Decimal);
        check("a=arg1:x32", 6, 4, &[], int(4, false), Form::Hexadecimal);
        check("arg0", 7, 8, &[], int(8, false), Form::Decimal);
        check("size", 2, 4, &[], int(4, false), Form::Decimal);
        check("a=+8(%di)", 7, 8, &[Step::Plus(8), Step::Read(8)], int(8, false), Form::Hexadecimal);
        check("a=-0x10(arg0):u8", 7, 1, &[Step::Plus(-16), Step::Read(1)], int(1, false), Form::Decimal);
        let name = [Step::Read(8), Step::Plus(8), Step::Read(8)];
        check("name=+0(+8(+0(%si))):string", 6, 8, &name, Type::Str, Form::Decimal);
        check("name=+24(%si):string", 6, 8, &[Step::Plus(24)], Type::Str, Form::Decimal);
    }

    #[test]
    fn what_cannot_be_fetched_is_named() {
        let check = |text: &str, want: &str| {
            let fault = at(text, "uprobe:b:f").expect_err(text);
            assert!(fault.contains(want) && fault.starts_with(&format!("field `{text}`")), "{fault}");
        };
        check("=%di", "`` is no name");
        check("8=%di", "`8` is no name");
        check("a=%zz", "there is no register %zz; there are %ax");
        check("a=", "`` is neither a register");
        check("a=8(%di)", "`8(%di)` is neither a register");
        check("a=+8(%di", "is not OFFSET(FETCH)");
        check("a=+(%di)", "`+` is no offset");
        check("a=+99999999999(%di)", "`+99999999999` is no offset");
        check("a=+-8(%di)", "`+-8` is no offset");
        check("a=%di:u24", "there is no type `u24`");
        check("a=%di:é", "there is no type `é`");
        check("a=%di:string", "write a=+0(%di):string");
        check("a=+0(+0(+0(+0(+0(+0(+0(+0(+0(%di)))))))))", "through 9 addresses, the limit is 8");
        check("a=colour", "no field `colour`");
        check("a=size:u64", "it has 4 bytes there, and 8 of an integer are wanted");
        check("a=+0(size)", "it has 4 bytes there, and 8 of an integer are wanted");
        let fault = at("a=%di", "uretprobe:b:f").expect_err("gone");
        assert!(fault.contains("arguments are gone"), "{fault}");
    }
}
