//! Addresses of networks: what is taken as one.

use weir_event::{Type, Word};

use crate::ast::Expr;
use crate::check::Checker;
use crate::check::memory::Raw;
use crate::types::Ty;

impl Checker<'_> {
    pub(super) fn ntop(&mut self, args: &[Expr]) -> Ty {
        let (family, address) = args.split_at(args.len() - 1);
        family.iter().for_each(|family| _ = self.integer(family, "the family of `ntop`"));
        match self.raw(&address[0]) {
            Some(Raw::Bytes(4 | 16) | Raw::Number) => Ty::Value(Type::Inet),
            Some(found) => {
                let message = format!("`ntop` takes an integer, or 4 or 16 bytes, not {}", found.described());
                self.error(
                    address[0].span,
                    &message,
                    "such as `ntop(((struct sockaddr_in *)arg1)->sin_addr)`",
                );
                Ty::Unknown
            }
            None => Ty::Unknown,
        }
    }

    pub(super) fn macaddr(&mut self, bytes: &Expr) -> Ty {
        match self.raw(bytes) {
            Some(Raw::Bytes(6)) => Ty::Value(Type::Word(Word::Mac)),
            Some(found) => {
                let message = format!("`macaddr` takes 6 bytes, not {}", found.described());
                self.error(bytes.span, &message, "such as an array `unsigned char[6]`");
                Ty::Unknown
            }
            None => Ty::Unknown,
        }
    }
}
