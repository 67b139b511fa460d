//! Addresses of networks: what is taken as one.

use weir_event::ctype::CType;
use weir_event::{Type, Word};

use crate::ast::{Expr, ExprKind};
use crate::check::memory::Raw;
use crate::check::{Checker, constant_string};
use crate::types::{Ty, address_bytes};

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

    /// An array of the address's bytes.
    pub(super) fn pton(&mut self, call: &Expr, text: &Expr) -> Ty {
        let address = constant_string(text, self.known).map(str::to_owned);
        let Some(address) = address else {
            self.literal_wanted("pton", text, "such as `pton(\"127.0.0.1\")`");
            return Ty::Unknown;
        };
        let Some(bytes) = address_bytes(&address) else {
            let message = format!("{address:?} is no internet address");
            self.error(text.span, &message, "such as `pton(\"127.0.0.1\")` or `pton(\"::1\")`");
            return Ty::Unknown;
        };
        let count = bytes.len() as u32;
        let element = self.types.add(CType::Int { bytes: 1, signed: false, is_char: false });
        let ty = self.types.add(CType::Array { element, count });
        self.type_ids.insert(call.span.start, ty);
        Ty::Value(Type::Object { ty, bytes: count.next_multiple_of(8) })
    }

    pub(super) fn cgroupid(&mut self, call: &Expr, path: &Expr) -> Ty {
        let Some(text) = constant_string(path, self.known).map(str::to_owned) else {
            self.literal_wanted("cgroupid", path, "such as `cgroupid(\"/sys/fs/cgroup/system.slice\")`");
            return Ty::Value(Type::U64);
        };
        match self.world.cgroup(&text) {
            Some(number) => _ = self.sizes.insert(call.span.start, number),
            None => {
                let message = format!("there is no control group {}", weir_source::printable(&text));
                self.error(path.span, &message, "it is a folder below /sys/fs/cgroup");
            }
        }
        Ty::Value(Type::U64)
    }

    pub(super) fn cgroup_path(&mut self, name: &str, args: &[Expr]) -> Ty {
        if let Some(filter) = args.get(1) {
            match constant_string(filter, self.known) {
                Some("unified" | "*") => {}
                Some(_) => {
                    let message =
                        "`cgroup_path` looks in the hierarchy of version 2 alone, which is \"unified\"";
                    self.error(filter.span, message, "leave it out");
                }
                None => self.literal_wanted("cgroup_path", filter, "leave it out"),
            }
        }
        self.word(name, &args[0], Word::Cgroup)
    }

    pub(super) fn literal_wanted(&mut self, function: &str, arg: &Expr, hint: &str) {
        if arg.kind != ExprKind::Invalid {
            self.look_over(arg);
            self.error(arg.span, &format!("`{function}` takes a string literal"), hint);
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
