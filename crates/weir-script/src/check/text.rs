//! Functions of strings and of bytes: what they take.

use weir_event::Type;
use weir_event::ctype::{CType, TypeId};

use crate::ast::{Expr, ExprKind};
use crate::check::memory::Operand;
use crate::check::{Checker, constant, constant_string};
use crate::limits;
use crate::types::{self, Ty, describe_one};

impl Checker<'_> {
    /// Both are strings, or an error. `what` is what the function does.
    pub(super) fn strings(&mut self, function: &str, what: &str, args: &[Expr]) -> Option<[Type; 2]> {
        let [left, right] = [0, 1].map(|index| {
            let ty = self.value(&args[index])?;
            if let Type::Str { .. } = ty {
                return Some(ty);
            }
            let message = format!("`{function}` {what} {}", describe_one(&ty, &self.types));
            self.error(args[index].span, &message, "`str(p)` reads the string at an address");
            None
        });
        Some([left?, right?])
    }

    pub(super) fn str_concat(&mut self, args: &[Expr]) -> Ty {
        match self.strings("str_concat", "puts strings together, not", args) {
            Some([left, right]) => Ty::Value(types::concatenated(&left, &right, self.settings.max_strlen)),
            None => Ty::Unknown,
        }
    }

    pub(super) fn strncmp(&mut self, args: &[Expr]) -> Ty {
        self.strings("strncmp", "compares strings, not", args);
        let in_range = |value: &i128| (0..=i128::from(u32::MAX)).contains(value);
        if args[2].kind != ExprKind::Invalid && constant(&args[2], self.known).filter(in_range).is_none() {
            let message = format!("`n` of `strncmp` must be a constant from 0 to {}", u32::MAX);
            self.error(args[2].span, &message, "such as `strncmp(comm, \"ssh\", 3)`");
        }
        Ty::Value(Type::I64)
    }

    /// Known before the program runs, but of a pointer.
    pub(super) fn strcap(&mut self, call: &Expr, text: &Expr) -> Ty {
        let Some(operand) = self.operand(text) else { return Ty::Unknown };
        let found = match operand {
            Operand::Other(Type::Str { bytes }) => Ok(self.exact_bytes(text).unwrap_or(bytes)),
            Operand::Object(place) => match self.types.get(place.id).clone() {
                CType::Array { count, .. } if self.types.text(place.id).is_some() && count > 0 => Ok(count),
                _ => Err(format!("`{}`", self.types.name(place.id))),
            },
            Operand::Pointer(to) if matches!(self.types.get(to), CType::Int { bytes: 1, .. }) => {
                self.in_target("strcap", call.span);
                return Ty::Value(Type::I64);
            }
            Operand::Pointer(to) => Err(format!("a pointer to {}", self.types.name(to))),
            Operand::Other(ty) => Err(describe_one(&ty, &self.types)),
        };
        match found {
            Ok(bytes) => {
                self.sizes.insert(call.span.start, bytes.into());
                Ty::Value(Type::I64)
            }
            Err(found) => {
                let message = format!("`strcap` takes a string or a pointer to characters, not {found}");
                self.error(text.span, &message, "`str(p)` reads the string at an address");
                Ty::Unknown
            }
        }
    }

    pub(super) fn memcmp(&mut self, args: &[Expr]) -> Ty {
        let rooms = [0, 1].map(|index| self.compared_bytes(&args[index]));
        self.value(&args[2]);
        let most = i128::from(self.settings.max_strlen.max(limits::OBJECT_BYTES_MAX));
        let Some(count) = constant(&args[2], self.known).filter(|count| (0..=most).contains(count)) else {
            if args[2].kind != ExprKind::Invalid {
                let message = format!("`n` of `memcmp` must be a constant from 0 to {most}");
                self.error(args[2].span, &message, "such as `memcmp($a, $b, 16)`");
            }
            return Ty::Value(Type::I64);
        };
        for (arg, room) in args.iter().zip(rooms) {
            if let Some(Some(bytes)) = room.filter(|room| room.is_some_and(|room| count > room.into())) {
                let message = format!("`memcmp` of {count} bytes, but this has {bytes}");
                self.error(arg.span, &message, &format!("compare at most {bytes} of them"));
            }
        }
        Ty::Value(Type::I64)
    }

    /// What there is to compare: so many bytes; of strings and buffers there are zeros behind.
    fn compared_bytes(&mut self, expr: &Expr) -> Option<Option<u32>> {
        // An array of characters is all its bytes here, and no string.
        let found = match self.operand(expr)? {
            Operand::Object(place) => match self.complete(place.id) {
                CType::Array { .. } | CType::Record(_) => {
                    if !place.is_held {
                        self.in_target("memcmp", expr.span);
                    }
                    return self.size(place.id, expr.span).map(Some);
                }
                _ => format!("`{}`", self.types.name(place.id)),
            },
            Operand::Other(Type::Str { .. } | Type::Buffer { .. }) => return Some(None),
            Operand::Other(ty) => describe_one(&ty, &self.types),
            Operand::Pointer(_) => "a pointer".to_string(),
        };
        let message = format!("`memcmp` takes strings, arrays and buffers, not {found}");
        self.error(expr.span, &message, "`buf(p, n)` reads the bytes at an address");
        None
    }

    pub(super) fn join(&mut self, call: &Expr, args: &[Expr]) -> Ty {
        let is_address = match self.operand(&args[0]) {
            None => true,
            Some(Operand::Pointer(to)) => self.is_address(to),
            Some(Operand::Object(place)) => match self.types.get(place.id).clone() {
                CType::Array { element, .. } => !place.is_held && self.is_address(element),
                CType::Int { bytes: 8, .. } => true,
                _ => false,
            },
            Some(Operand::Other(ty)) => matches!(ty, Type::Int { .. }),
        };
        if !is_address {
            let message = "`join` takes an array of pointers to strings";
            self.error(args[0].span, message, "such as `join(args.argv)` or `join((char **)arg1)`");
        }
        self.in_target("join", call.span);
        if let Some(separator) = args.get(1)
            && constant_string(separator, self.known).is_none()
            && separator.kind != ExprKind::Invalid
        {
            self.look_over(separator);
            let message = "the separator of `join` must be a string literal";
            self.error(separator.span, message, "such as `join(args.argv, \",\")`");
        }
        Ty::None
    }

    fn is_address(&self, id: TypeId) -> bool {
        matches!(
            self.types.get(id),
            CType::Pointer(_) | CType::Void | CType::Int { bytes: 8, signed: false, .. }
        )
    }
}
