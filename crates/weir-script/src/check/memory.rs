//! Memory by type: names of types, pointers, members, elements, casts, `sizeof` and `offsetof`.
//!
//! A record or an array in memory is a place: its members and elements are read alone. As a value all of it is copied, an array of `char` as a string.
//! What a name stands for is looked up in the script's C text, then in the debug information of the clause's binaries; the
//! members of a record are asked of the world when one of them is first named.

use std::collections::HashSet;

use weir_event::ctype::{CType, CTypes, Enum, Member, TypeId};
use weir_event::{Type, Word};
use weir_ir::KERNEL;
use weir_source::{Span, nearest};

use crate::ast::{BinaryOp, Expr, ExprKind, Name, TypeBase, TypeName, TypeSuffix};
use crate::builtin;
use crate::check::{Checker, constant};
use crate::limits;
use crate::types::{self, Ty, describe_one};

impl Checker<'_> {
    /// The type that a name stands for, or an error.
    pub(super) fn type_id(&mut self, name: &TypeName) -> Option<TypeId> {
        let mut id = match &name.base {
            TypeBase::Int(ty) => {
                self.types.add(CType::Int { bytes: (ty.bits / 8) as u8, signed: ty.signed, is_char: false })
            }
            TypeBase::Basic(words) => match weir_header::basic(&words.split(' ').collect::<Vec<_>>()) {
                Some(ty) => self.types.add(ty),
                None => {
                    self.error(name.span, &format!("`{words}` is no type"), "such as `unsigned long`");
                    return None;
                }
            },
            TypeBase::Tag(tag) => match self.known.declarations.tag(tag) {
                Some(Ok(id)) => id,
                Some(Err(fault)) => {
                    let message = format!("`{tag}` cannot be read: {fault}");
                    self.error(name.span, &message, "declare what is needed of it in the script");
                    return None;
                }
                None if tag.starts_with("enum ") => self.enumeration(tag, name.span),
                None => {
                    // The kernel is the last, and the only one of clauses that are not of binaries.
                    if let Some(binary) = self.binaries.first().filter(|binary| *binary != KERNEL) {
                        self.tags.entry(tag.clone()).or_insert_with(|| (name.span, binary.clone()));
                    }
                    self.types.named(tag, None, None)
                }
            },
            TypeBase::Name(word) => self.typedef(word, name.span)?,
            TypeBase::Of(value) => self.type_of(value)?,
        };
        for suffix in &name.suffixes {
            id = self.types.add(match suffix {
                TypeSuffix::Pointer => CType::Pointer(id),
                TypeSuffix::Array(count) => CType::Array { element: id, count: *count },
            });
        }
        self.type_ids.insert(name.span.start, id);
        Some(id)
    }

    /// An enumeration of the clause's binaries, the same as their members and parameters have. It has its values from the start.
    fn enumeration(&mut self, tag: &str, span: Span) -> TypeId {
        let is_it = |ty: &CType| matches!(ty, CType::Enum(of) if of.name == tag);
        if let Some(id) = self.type_ids.get(&span.start).filter(|id| is_it(self.types.get(**id))) {
            return *id;
        }
        let (world, types) = (self.world, &mut self.types);
        let found = self.binaries.iter().find_map(|binary| world.c_type(binary, tag, types));
        found.unwrap_or_else(|| types.named(tag, None, None))
    }

    fn typedef(&mut self, word: &str, span: Span) -> Option<TypeId> {
        if let Some(id) = self.known.declarations.typedef(word) {
            return Some(id);
        }
        let world = self.world;
        for binary in &self.binaries {
            if let Some(id) = world.c_type(binary, word, &mut self.types) {
                return Some(id);
            }
        }
        let hint = match nearest(word, self.known.declarations.typedefs()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "declare it before the probes, or include its header".to_string(),
        };
        self.error(span, &format!("unknown type `{word}`"), &hint);
        None
    }

    /// What a type is, with its members where only its name was known.
    pub(super) fn complete(&mut self, id: TypeId) -> CType {
        if let CType::Named { name, place, .. } = self.types.get(id).clone() {
            let world = self.world;
            let known = match &place {
                Some(place) => world.members(place, &mut self.types),
                None => None,
            };
            let mut by_name = |types: &mut CTypes| {
                let mut all = self.binaries.iter();
                let (binary, found) =
                    all.find_map(|binary| Some((binary, world.c_type(binary, &name, types)?)))?;
                if binary == KERNEL {
                    self.from_kernel.insert(name.clone());
                }
                match types.get(found).clone() {
                    CType::Named { place: Some(place), .. } => world.members(&place, types),
                    other => Some(other),
                }
            };
            if let Some(ty) = known.or_else(|| by_name(&mut self.types)) {
                self.types.complete(id, ty);
            }
        }
        self.types.get(id).clone()
    }

    /// Says which records that clauses of binaries name are the kernel's of that name.
    pub(super) fn warn_of_kernel_types(&mut self) {
        for (name, (span, binary)) in std::mem::take(&mut self.tags) {
            if self.from_kernel.contains(&name) {
                let binary = weir_source::printable(&binary);
                let message = format!("`{name}` is the kernel's: the debug information of {binary} has none");
                let hint = "declare it before the probes, if the program has one of its own";
                self.warning(span, &message, hint);
            }
        }
    }

    /// Looks up all that a record or an array consists of, which is printed with it.
    fn complete_all(&mut self, id: TypeId) {
        let (mut open, mut seen) = (vec![id], HashSet::new());
        while let Some(id) = open.pop() {
            if seen.len() == limits::OBJECT_TYPES_MAX || !seen.insert(id) {
                continue;
            }
            match self.complete(id) {
                CType::Record(record) => open.extend(record.members.iter().map(|member| member.ty)),
                CType::Array { element, .. } => open.push(element),
                _ => {}
            }
        }
    }

    /// Bytes of an element, or an error that there are none.
    fn stride(&mut self, id: TypeId, span: Span) -> Option<u32> {
        let bytes = self.size(id, span)?;
        if bytes == 0 {
            let message = format!("the size of `{}` is not known", self.types.name(id));
            self.error(span, &message, "cast the pointer to elements of a known size");
            return None;
        }
        Some(bytes)
    }

    /// Bytes of a type, or an error that there are none.
    pub(super) fn size(&mut self, id: TypeId, span: Span) -> Option<u32> {
        self.complete(id);
        let bytes = self.types.bytes(id);
        if bytes.is_none() {
            let name = self.types.name(id);
            match self.types.get(id) {
                CType::Named { .. } => self.unknown_record(&name, span),
                _ => self.error(span, &format!("`{name}` has no size"), "a pointer to it has"),
            }
        }
        bytes
    }

    fn unknown_record(&mut self, name: &str, span: Span) {
        let message = format!("nothing is known of `{name}` but its name");
        let hint = match self.binaries.first() {
            Some(binary) if binary != KERNEL => format!(
                "declare it before the probes, or install the debug information of {}",
                weir_source::printable(binary)
            ),
            _ => "declare it before the probes, or include its header".to_string(),
        };
        self.error(span, &message, &hint);
    }

    /// The value of what lies in memory.
    pub(super) fn memory(&mut self, expr: &Expr) -> Ty {
        match self.place(expr) {
            Some(Found::Place(place)) => self.loaded(place, expr),
            Some(Found::Part(ty)) => Ty::Value(ty),
            None => Ty::Unknown,
        }
    }

    /// The value of what lies at a place: a number, a pointer, a string, or all of a record or an array.
    pub(super) fn loaded(&mut self, Place { id, is_held }: Place, expr: &Expr) -> Ty {
        if !is_held {
            self.in_memory(&shown(expr), expr.span);
        }
        let name = self.types.name(id);
        let ty = self.complete(id);
        if let (CType::Int { .. } | CType::Enum(_), Some(bytes)) = (&ty, self.types.bytes(id)) {
            self.widths.entry(expr.span).or_insert_with(|| vec![8 * bytes]);
        }
        let (message, hint) = match ty {
            CType::Int { signed, .. } => return Ty::Value(Type::Int { signed }),
            CType::Enum(_) => return Ty::Value(Type::Word(Word::Enum(id))),
            CType::Float { .. } => return Ty::Value(Type::Double),
            CType::Pointer(to) => return Ty::Value(Type::Pointer(to)),
            CType::Array { .. } if let Some(count) = self.types.text(id) => {
                return Ty::Value(types::text_of(count, self.settings.max_strlen));
            }
            CType::Array { .. } | CType::Record(_) => return self.object(id, expr.span),
            CType::Void => {
                ("`void` has no value".to_string(), "cast the pointer: `*(uint64 *)$p`".to_string())
            }
            CType::Other { what, .. } => (
                format!("{what} cannot be read"),
                "integers, addresses, enumerations, float and double are".to_string(),
            ),
            CType::Named { .. } => {
                self.unknown_record(&name, expr.span);
                return Ty::Unknown;
            }
        };
        self.error(expr.span, &message, &hint);
        Ty::Unknown
    }

    /// A record or an array as a value.
    fn object(&mut self, id: TypeId, span: Span) -> Ty {
        let (name, limit) = (self.types.name(id), limits::OBJECT_BYTES_MAX);
        self.complete_all(id);
        let Some(bytes) = self.size(id, span) else { return Ty::Unknown };
        let hint = "name a member or an element, or keep its address";
        match bytes {
            0 => self.error(span, &format!("`{name}` has no bytes that could be a value"), hint),
            1..=limits::OBJECT_BYTES_MAX => {
                return Ty::Value(Type::Object { ty: id, bytes: bytes.next_multiple_of(8) });
            }
            _ => {
                let message =
                    format!("`{name}` has {bytes} bytes, more than the {limit} that a value may have");
                self.error(span, &message, hint);
            }
        }
        Ty::Unknown
    }

    /// The type of what `*`, a member's name or an index means. None if there is a fault, or the type is not known yet.
    fn place(&mut self, expr: &Expr) -> Option<Found> {
        let place = match &expr.kind {
            ExprKind::Deref(of) => match self.operand(of)? {
                Operand::Pointer(id) => Some(Place { id, is_held: false }),
                Operand::Object(Place { id, is_held }) => match *self.types.get(id) {
                    CType::Array { element, .. } => Some(Place { id: element, is_held }),
                    CType::Int { .. } => Some(self.word_at(expr)),
                    _ => self.no_pointer("`*`", &format!("`{}`", self.types.name(id)), of.span),
                },
                Operand::Other(Type::Int { .. }) => Some(self.word_at(expr)),
                Operand::Other(ty) => self.no_pointer("`*`", &describe_one(&ty, &self.types), of.span),
            },
            ExprKind::Member { of, name } => {
                let from = match self.operand(of)? {
                    Operand::Pointer(id) => Place { id, is_held: false },
                    Operand::Object(place) => place,
                    Operand::Other(Type::Record(parts)) => {
                        return self.record_part((expr, of), &parts, name).map(Found::Part);
                    }
                    Operand::Other(ty) => {
                        let what = format!("`.{}`", name.text);
                        return self.no_pointer(&what, &describe_one(&ty, &self.types), of.span);
                    }
                };
                let member = self.member(from.id, name, of.span)?;
                if let Some(bits) = member.bits {
                    self.widths.insert(expr.span, vec![bits.width.into()]);
                }
                Some(Place { id: member.ty, ..from })
            }
            ExprKind::Index { of, index } => {
                self.integer(index, "an index");
                match self.operand(of)? {
                    Operand::Pointer(id) => {
                        self.stride(id, of.span)?;
                        Some(Place { id, is_held: false })
                    }
                    Operand::Object(place) => match *self.types.get(place.id) {
                        CType::Array { element, count } => self.element(place, (element, count), index),
                        _ => self.no_pointer("`[…]`", &format!("`{}`", self.types.name(place.id)), of.span),
                    },
                    Operand::Other(Type::Tuple(parts)) => {
                        let Some(at) = constant(index, self.known) else {
                            let message = "the index of a tuple must be a constant";
                            self.error(index.span, message, "its parts have types of their own: `$t[0]`");
                            return None;
                        };
                        let at = usize::try_from(at).ok();
                        self.parts.insert(expr.span, at.unwrap_or_default());
                        self.note_part(expr, of, &parts.iter().collect::<Vec<_>>(), at.unwrap_or_default());
                        return self.part_of(&parts, at, index.span).map(Found::Part);
                    }
                    Operand::Other(Type::Str { bytes }) if constant(index, self.known).is_some() => {
                        let bytes = self.exact_bytes(of).unwrap_or(bytes);
                        let at = constant(index, self.known).and_then(|at| u32::try_from(at).ok());
                        let Some(at) = at.filter(|at| *at < bytes) else {
                            let message = format!("the string has {bytes} bytes, its end included");
                            self.error(index.span, &message, "its characters are counted from 0");
                            return None;
                        };
                        self.parts.insert(expr.span, at as usize);
                        return Some(Found::Part(Type::I64));
                    }
                    Operand::Other(Type::Str { .. }) => {
                        self.checked_alone(
                            expr.span,
                            "a character of a string by a number that is computed",
                            "write a constant: `$s[0]`",
                        );
                        let id = self.types.add(CType::Int { bytes: 1, signed: true, is_char: true });
                        Some(Place { id, is_held: true })
                    }
                    Operand::Other(ty) => self.no_pointer("`[…]`", &describe_one(&ty, &self.types), of.span),
                }
            }
            _ => unreachable!("only `*`, members and elements are places"),
        };
        place.map(Found::Place)
    }

    /// `$r.name`
    fn record_part(
        &mut self,
        (expr, of): (&Expr, &Expr),
        parts: &[(String, Type)],
        name: &Name,
    ) -> Option<Type> {
        let Some(at) = parts.iter().position(|(part, _)| *part == name.text) else {
            let names = || parts.iter().map(|(name, _)| name.as_str());
            let hint = match nearest(&name.text, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
            };
            self.error(name.span, &format!("the record has no part `{}`", name.text), &hint);
            return None;
        };
        self.parts.insert(expr.span, at);
        self.note_part(expr, of, &parts.iter().map(|(_, part)| part).collect::<Vec<_>>(), at);
        Some(parts[at].1.clone())
    }

    /// What `*` means of a number: 8 bytes at that address.
    fn word_at(&mut self, expr: &Expr) -> Place {
        let id = self.types.add(CType::Int { bytes: 8, signed: false, is_char: false });
        self.type_ids.insert(expr.span.start, id);
        Place { id, is_held: false }
    }

    /// What a pointer or a record is taken of. None if it is not known.
    pub(super) fn operand(&mut self, expr: &Expr) -> Option<Operand> {
        let found = match expr.is_place() {
            true => self.place(expr)?,
            false => Found::Part(self.value(expr)?),
        };
        Some(match found {
            Found::Part(Type::Pointer(to)) => Operand::Pointer(to),
            Found::Part(Type::Object { ty, .. }) => Operand::Object(Place { id: ty, is_held: true }),
            Found::Part(other) => Operand::Other(other),
            Found::Place(place) => match self.complete(place.id) {
                CType::Pointer(to) => Operand::Pointer(to),
                _ => Operand::Object(place),
            },
        })
    }

    /// What is taken as bytes: all of an array or a record, or a number.
    pub(super) fn raw(&mut self, expr: &Expr) -> Option<Raw> {
        let found = self.operand(expr)?;
        if let Operand::Object(Place { is_held: false, .. }) | Operand::Pointer(_) = found {
            self.in_memory(&shown(expr), expr.span);
        }
        Some(match found {
            Operand::Object(place) => match self.complete(place.id) {
                CType::Array { .. } | CType::Record(_) => Raw::Bytes(self.size(place.id, expr.span)?),
                CType::Int { .. } | CType::Enum(_) => Raw::Number,
                _ => Raw::Other(self.types.name(place.id)),
            },
            Operand::Other(Type::Int { .. }) => Raw::Number,
            Operand::Other(ty) => Raw::Other(describe_one(&ty, &self.types)),
            Operand::Pointer(_) => Raw::Other("a pointer".to_string()),
        })
    }

    fn no_pointer<T>(&mut self, what: &str, found: &str, span: Span) -> Option<T> {
        let message = format!("{what} takes a pointer or what one leads to, not {found}");
        self.error(span, &message, "cast it to what it points to: `((struct request *)arg0)->id`");
        None
    }

    fn member(&mut self, id: TypeId, name: &Name, of: Span) -> Option<Member> {
        let shown = self.types.name(id);
        match self.complete(id) {
            CType::Record(record) => {
                if let Some(member) = record.member(&self.types, &name.text) {
                    if member.bits.is_some_and(|bits| bits.bytes().is_none()) {
                        let message =
                            format!("the bit-field `{}` spans nine bytes and cannot be read", name.text);
                        self.error(
                            name.span,
                            &message,
                            "read the bytes that it is in: cast the pointer to `uint8 *`",
                        );
                        return None;
                    }
                    return Some(member);
                }
                let names = record.names(&self.types);
                let hint = match nearest(&name.text, names.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        let some: Vec<&str> = names.iter().copied().take(8).collect();
                        let dots = if names.len() > some.len() { ", …" } else { "" };
                        format!("it has {}{dots}", some.join(", "))
                    }
                };
                self.error(name.span, &format!("`{shown}` has no member `{}`", name.text), &hint);
            }
            CType::Named { .. } => self.unknown_record(&shown, of),
            _ => {
                let message = format!("`{shown}` has no members");
                self.error(name.span, &message, "only `struct` and `union` have; cast the pointer to one");
            }
        }
        None
    }

    fn element(&mut self, place: Place, (element, count): (TypeId, u32), index: &Expr) -> Option<Place> {
        let constant = constant(index, self.known);
        let past = constant.filter(|at| count > 0 && !(0..i128::from(count)).contains(at));
        if let Some(at) = past {
            let message = format!("index {at} is past the end of `{}`", self.types.name(place.id));
            self.error(index.span, &message, &format!("indices are 0 to {}", count - 1));
            return None;
        }
        if place.is_held && constant.is_none() {
            let message = "not supported by weir yet: a computed index of an array that is kept";
            self.error(index.span, message, "index it in memory: `$p->list[$i]`");
            return None;
        }
        self.stride(element, index.span)?;
        Some(Place { id: element, ..place })
    }

    /// `(type)operand`
    pub(super) fn cast(&mut self, expr: &Expr, name: &TypeName, operand: &Expr) -> Ty {
        let id = self.type_id(name);
        let what = format!("a cast to {}", name.text());
        // Looked at once: casts stand within casts.
        let ty = match operand.is_place() {
            true => match self.place(operand) {
                Some(Found::Place(place)) => match *self.types.get(place.id) {
                    // An array is its address.
                    CType::Array { element, .. } if !place.is_held => Some(Type::Pointer(element)),
                    _ => match self.loaded(place, operand) {
                        Ty::Value(ty) => Some(ty),
                        _ => None,
                    },
                },
                Some(Found::Part(ty)) => Some(ty),
                None => None,
            },
            false => self.value(operand),
        };
        let Some(id) = id else { return Ty::Unknown };
        match self.complete(id) {
            CType::Int { signed, .. } | CType::Enum(Enum { signed, .. }) => {
                self.widths.insert(expr.span, vec![8 * self.types.bytes(id).unwrap_or(types::NUMBER_BYTES)]);
                let is_number = match ty {
                    Some(Type::Double) => true,
                    Some(ty) => self.integer_of(ty, operand.span, &what).is_some(),
                    None => false,
                };
                let shown = match self.types.get(id) {
                    CType::Enum(_) => Type::Word(Word::Enum(id)),
                    _ => Type::Int { signed },
                };
                return if is_number { Ty::Value(shown) } else { Ty::Unknown };
            }
            CType::Pointer(to) => {
                let Some(ty) = ty else { return Ty::Unknown };
                let found = self.integer_of(ty, operand.span, &what);
                return found.map_or(Ty::Unknown, |_| Ty::Value(Type::Pointer(to)));
            }
            CType::Array { element, .. }
                if matches!(self.types.get(element), CType::Int { .. })
                    && self.types.bytes(id).is_some_and(|bytes| (1..=8).contains(&bytes)) =>
            {
                let Some(ty) = ty else { return Ty::Unknown };
                let found = self.integer_of(ty, operand.span, &what);
                let bytes = types::NUMBER_BYTES;
                return found.map_or(Ty::Unknown, |_| Ty::Value(Type::Object { ty: id, bytes }));
            }
            CType::Named { name: tag, .. } if tag.starts_with("enum ") => {
                self.unknown_record(&tag, name.span)
            }
            CType::Record(_) | CType::Named { .. } => {
                let hint = format!("cast to a pointer: `({} *)`", name.text());
                self.error(name.span, &format!("{what} is none to a number or a pointer"), &hint);
            }
            _ => {
                let hint = "casts are to integers and pointers, and `(float)farg0`";
                self.error(name.span, &format!("not supported by weir yet: {what}"), hint);
            }
        }
        Ty::Unknown
    }

    /// `sizeof(type)`. A name alone may be a builtin's.
    pub(super) fn size_of_type(&mut self, expr: &Expr, name: &TypeName) -> Ty {
        if let TypeBase::Name(word) = &name.base
            && let Some(row) = builtin::variable(word)
        {
            return self.learn_size(expr, Some(row.bytes().into()));
        }
        if let Some(value) = name.of().filter(|_| name.suffixes.is_empty()) {
            return self.size_of_value(expr, value);
        }
        let bytes = self.type_id(name).and_then(|id| self.size(id, name.span));
        self.learn_size(expr, bytes.map(u64::from))
    }

    pub(super) fn size_of_value(&mut self, expr: &Expr, operand: &Expr) -> Ty {
        let bytes = match self.operand(operand) {
            Some(Operand::Object(place)) => self.size(place.id, operand.span),
            Some(Operand::Pointer(_)) => Some(8),
            Some(Operand::Other(types::TRUTH)) => Some(1),
            Some(Operand::Other(Type::Word(Word::Enum(of)))) => self.types.bytes(of),
            Some(Operand::Other(Type::Str { bytes })) => Some(self.exact_bytes(operand).unwrap_or(bytes)),
            Some(Operand::Other(Type::Int { .. })) => Some(self.width(operand).div_ceil(8)),
            Some(Operand::Other(ty @ (Type::Tuple(_) | Type::Record(_)))) => {
                Some(self.tuple_bytes(operand, &ty))
            }
            Some(Operand::Other(ty)) => Some(ty.bytes()),
            None => None,
        };
        self.learn_size(expr, bytes.map(u64::from))
    }

    fn learn_size(&mut self, expr: &Expr, bytes: Option<u64>) -> Ty {
        let Some(bytes) = bytes else { return Ty::Unknown };
        self.sizes.insert(expr.span.start, bytes);
        Ty::Value(Type::U64)
    }

    pub(super) fn offset_of(&mut self, expr: &Expr, ty: &TypeName, path: &[Name]) -> Ty {
        let Some(mut id) = self.type_id(ty) else { return Ty::Unknown };
        let (mut of, mut offset) = (ty.span, 0);
        for name in path {
            let Some(member) = self.member(id, name, of) else { return Ty::Unknown };
            if member.bits.is_some() {
                self.error(name.span, "a bit-field has no offset in bytes", "name a member that is none");
                return Ty::Unknown;
            }
            offset += u64::from(member.offset);
            (id, of) = (member.ty, name.span);
        }
        self.learn_size(expr, Some(offset))
    }

    /// Bytes of a string that a type's name says.
    pub(super) fn declared_bytes(&self, name: &TypeName) -> Option<u32> {
        match name.suffixes.as_slice() {
            _ if name.base != TypeBase::Name("string".to_string()) => None,
            [] => Some(self.settings.max_strlen),
            [TypeSuffix::Array(bytes)] => Some(*bytes),
            _ => None,
        }
    }

    /// A type that a variable is declared with.
    pub(super) fn declared(&mut self, name: &TypeName) -> Option<Type> {
        if let Some(bytes) = self.declared_bytes(name) {
            let (least, most) = (1, limits::MAX_STRLEN_RANGE.1 as u32);
            if !(least..=most).contains(&bytes) {
                let message = format!("a string of {bytes} bytes: it has {least} to {most}");
                self.error(name.span, &message, "such as `string[64]`, its end included");
                return None;
            }
            return Some(Type::Str { bytes: types::string_bytes(u64::from(bytes) - 1) });
        }
        if types::is_truth_name(name) {
            return Some(types::TRUTH);
        }
        if let Some(value) = name.of().filter(|_| name.suffixes.is_empty()) {
            return self.value(value);
        }
        let id = self.type_id(name)?;
        match &self.complete(id) {
            CType::Enum(_) => Some(Type::Word(Word::Enum(id))),
            CType::Int { signed, .. } => Some(Type::Int { signed: *signed }),
            CType::Pointer(to) => Some(Type::Pointer(*to)),
            CType::Float { bytes: 8 } => Some(Type::Double),
            _ => {
                let message = format!("not supported by weir yet: a variable of the type `{}`", name.text());
                self.error(
                    name.span,
                    &message,
                    "integers and pointers may be declared; other types come from the first value",
                );
                None
            }
        }
    }

    /// The type of `+` and `-` with a pointer; none where the operands are taken as numbers.
    pub(super) fn pointer_types(
        &mut self,
        op: BinaryOp,
        span: Span,
        left: &Type,
        right: &Type,
    ) -> Option<Ty> {
        if let (BinaryOp::Sub, Type::Pointer(to), Type::Pointer(other)) = (op, left, right)
            && to == other
        {
            // So many elements.
            let is_known = *to == CTypes::VOID || self.stride(*to, span).is_some();
            return Some(if is_known { Ty::Value(Type::I64) } else { Ty::Unknown });
        }
        let to = match (op, left, right) {
            (BinaryOp::Add | BinaryOp::Sub, Type::Pointer(to), Type::Int { .. }) => *to,
            (BinaryOp::Add, Type::Int { .. }, Type::Pointer(to)) => *to,
            _ => return None,
        };
        if to == CTypes::VOID {
            return Some(Ty::Value(Type::Pointer(to)));
        }
        Some(self.size(to, span).map_or(Ty::Unknown, |_| Ty::Value(Type::Pointer(to))))
    }
}

/// Something that has bytes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) id: TypeId,
    /// It is a part of a value, and not in the target's memory.
    pub(super) is_held: bool,
}

/// What a member or an element is.
enum Found {
    Place(Place),
    /// Of a tuple or a record.
    Part(Type),
}

/// What is taken as bytes.
pub(super) enum Raw {
    Bytes(u32),
    Number,
    Other(String),
}

impl Raw {
    pub(super) fn described(&self) -> String {
        match self {
            Raw::Bytes(bytes) => format!("{bytes} bytes"),
            Raw::Number => "an integer".to_string(),
            Raw::Other(what) => what.clone(),
        }
    }
}

/// What members and elements are taken of.
pub(super) enum Operand {
    /// Of this.
    Pointer(TypeId),
    /// What is at a place, and no pointer.
    Object(Place),
    Other(Type),
}

/// As messages name it.
fn shown(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Member { name, .. } => format!("->{}", name.text),
        ExprKind::Index { .. } => "[…]".to_string(),
        _ => "*".to_string(),
    }
}
