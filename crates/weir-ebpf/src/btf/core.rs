//! CO-RE: what a field, type or enumerator of one BTF is in another.
//!
//! In: a relocation of an object, the object's own BTF, and a [`Target`]: the BTF of the system that the program is
//! for. Out: an [`Answer`], the number that belongs into the instruction, or what is missing there. The rules are
//! those that libbpf documents (Linux: Documentation/bpf/btf.rst, "BTF CO-RE relocations"):
//! - a type is looked for by kind and name; what follows three underscores in its name is a note for people;
//! - a field is looked for by names, through structs and unions without a name; array indices are kept;
//! - a candidate counts only if the field's type is alike: integers of any size, pointers to anything, arrays of
//!   like elements, structs and unions of any content, enums of one name;
//! - where several candidates count, all must give the same number.
//!
//! Guaranteed: time and memory are bounded whatever both BTFs hold (types may form rings).
//!
//! Deliberately not here: writing the number into instructions (`elf::core`), and the kind that compares whole types
//! (`bpf_core_type_matches`).

use std::cell::Cell;
use std::collections::HashMap;

use super::ext::CoreRelocation;
use super::{Btf, DEPTH_MAX, Kind, Type, TypeId};

/// The BTF of the system that programs are adapted to, with an index by name.
#[derive(Debug)]
pub struct Target<'a> {
    btf: &'a Btf,
    by_name: HashMap<&'a str, Vec<TypeId>>,
    /// Candidates and members that may still be looked at, for all questions together.
    work_left: Cell<u64>,
}

/// What a relocation comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The number in the object, where its compiler has no choice in it, and the one for the target.
    Value { local: Option<u64>, target: u64, access: Option<Access> },
    /// The target has nothing like it: an instruction that uses it must not be reached.
    Missing,
}

/// How many bytes a load of the field has on either side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub local_bytes: u32,
    pub target_bytes: u32,
    /// A load may be made narrower or wider: both are pointers, or integers without a sign.
    pub resizable: bool,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    #[error("it contradicts the object's BTF")]
    Malformed,
    #[error("there is no CO-RE relocation of kind {0}")]
    UnknownKind(u32),
    #[error("{0}, which this version does not answer")]
    Unsupported(&'static str),
    #[error("{candidates} types of that name in the target differ in the answer")]
    Ambiguous { candidates: usize },
    #[error("a bit field that no load of 8 bytes covers")]
    BitField,
    #[error("answering takes more than {WORK_MAX} steps through the types")]
    TooBig,
}

/// Members and indices of a path; the compiler's own limit is 64.
const STEPS_MAX: usize = 64;
/// Candidates and members that are looked at for one object: a large one against a kernel takes some 10⁶, and 2²⁶ are
/// well below a second.
const WORK_MAX: u64 = 1 << 26;

/// The kinds of relocation, by number (the kernel's `enum bpf_core_relo_kind`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    Offset,
    Bytes,
    FieldExists,
    Signed,
    LeftShift,
    RightShift,
    LocalId,
    TargetId,
    TypeExists,
    TypeBytes,
    EnumeratorExists,
    Enumerator,
}

const ASKS: [Ask; 12] = [
    Ask::Offset,
    Ask::Bytes,
    Ask::FieldExists,
    Ask::Signed,
    Ask::LeftShift,
    Ask::RightShift,
    Ask::LocalId,
    Ask::TargetId,
    Ask::TypeExists,
    Ask::TypeBytes,
    Ask::EnumeratorExists,
    Ask::Enumerator,
];

/// One step from a type to a part of it.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Member { name: &'a str, ty: TypeId },
    Index(u32),
}

/// A part of a type: where, and of what type.
#[derive(Clone, Copy, Debug)]
struct Field {
    ty: TypeId,
    bit_offset: u64,
    /// Bits, if it is a bit field.
    bits: Option<u32>,
}

impl<'a> Target<'a> {
    pub fn new(btf: &'a Btf) -> Target<'a> {
        let mut by_name: HashMap<&str, Vec<TypeId>> = HashMap::new();
        for (id, ty) in btf.types() {
            if let Some(name) = btf.name(ty.name).filter(|name| !name.is_empty()) {
                by_name.entry(essential(name)).or_default().push(id);
            }
        }
        Target { btf, by_name, work_left: Cell::new(WORK_MAX) }
    }

    pub fn btf(&self) -> &'a Btf {
        self.btf
    }

    /// What `relocation` of an object with the BTF `local` comes to here.
    pub fn answer(&self, local: &Btf, relocation: &CoreRelocation) -> Result<Answer, CoreError> {
        let ask = ASKS.get(relocation.kind as usize).copied();
        let ask = ask.ok_or(match relocation.kind {
            12 => CoreError::Unsupported("whether two types match member for member"),
            kind => CoreError::UnknownKind(kind),
        })?;
        match ask {
            Ask::LocalId => {
                let id = relocation.ty.into();
                Ok(Answer::Value { local: Some(id), target: id, access: None })
            }
            Ask::TargetId | Ask::TypeExists | Ask::TypeBytes => self.of_type(local, relocation.ty, ask),
            Ask::EnumeratorExists | Ask::Enumerator => self.of_enumerator(local, relocation, ask),
            _ => self.of_field(local, relocation, ask),
        }
    }

    fn of_field(&self, local: &Btf, relocation: &CoreRelocation, ask: Ask) -> Result<Answer, CoreError> {
        let (steps, field) = local_path(local, relocation)?;
        let mut found = Vec::new();
        for id in self.candidates(local, relocation.ty)? {
            found.extend(self.follow(local, id, &steps));
            // At 0 `find_member` has given up, which is no answer.
            self.work(1)?;
        }
        if ask == Ask::FieldExists {
            return Ok(Answer::Value { local: Some(1), target: u64::from(!found.is_empty()), access: None });
        }
        let mut answers = Vec::with_capacity(found.len());
        for target in &found {
            let access = (ask == Ask::Offset).then(|| access(local, field, self.btf, *target)).flatten();
            answers.push((number(self.btf, *target, ask)?, access));
        }
        let (target, access) = match one(&answers)? {
            None => return Ok(Answer::Missing),
            Some(answer) => answer,
        };
        // Compilers differ in the unit that they load a bit field with.
        let is_free = field.bits.is_some() && !matches!(ask, Ask::Signed | Ask::RightShift);
        let local = if is_free { None } else { Some(number(local, field, ask)?) };
        Ok(Answer::Value { local, target, access })
    }

    fn of_type(&self, local: &Btf, ty: TypeId, ask: Ask) -> Result<Answer, CoreError> {
        let candidates = self.candidates(local, ty)?;
        let alike = candidates.into_iter().filter(|id| types_alike(local, ty, self.btf, *id, DEPTH_MAX));
        let mut answers = Vec::new();
        for id in alike {
            answers.push(match ask {
                Ask::TargetId => id.into(),
                Ask::TypeExists => 1,
                _ => self.btf.size_of(id).ok_or(CoreError::Malformed)?.into(),
            });
        }
        let local_answer = match ask {
            Ask::TargetId => ty.into(),
            Ask::TypeExists => 1,
            _ => local.size_of(ty).ok_or(CoreError::Malformed)?.into(),
        };
        // Of a type that is not there all three are 0, by definition.
        let target = one(&answers)?.unwrap_or(0);
        Ok(Answer::Value { local: Some(local_answer), target, access: None })
    }

    fn of_enumerator(&self, local: &Btf, relocation: &CoreRelocation, ask: Ask) -> Result<Answer, CoreError> {
        let index = local.name(relocation.access).and_then(|text| text.parse().ok());
        let ty = local.resolve(relocation.ty).ok_or(CoreError::Malformed)?;
        let wanted = index.and_then(|index: usize| enumerators(ty).nth(index)).ok_or(CoreError::Malformed)?;
        let name = local.name(wanted.0).ok_or(CoreError::Malformed)?;
        let mut answers = Vec::new();
        for id in self.candidates(local, relocation.ty)? {
            let Some(ty) = self.btf.resolve(id) else { continue };
            let same = |at: u32| self.btf.name(at).is_some_and(|found| essential(found) == essential(name));
            answers.extend(enumerators(ty).find(|(at, _)| same(*at)).map(|(_, value)| value));
        }
        if ask == Ask::EnumeratorExists {
            return Ok(Answer::Value {
                local: Some(1),
                target: u64::from(!answers.is_empty()),
                access: None,
            });
        }
        Ok(match one(&answers)? {
            Some(target) => Answer::Value { local: Some(wanted.1), target, access: None },
            None => Answer::Missing,
        })
    }

    /// Types of the target with the name and kind of `ty`.
    fn candidates(&self, local: &Btf, ty: TypeId) -> Result<Vec<TypeId>, CoreError> {
        let wanted = local.get(ty).ok_or(CoreError::Malformed)?;
        let name = local.name(wanted.name).filter(|name| !name.is_empty()).ok_or(CoreError::Malformed)?;
        let named = self.by_name.get(essential(name)).map_or(&[][..], Vec::as_slice);
        self.work(named.len() as u64)?;
        let of_kind = |id: &&TypeId| self.btf.get(**id).is_some_and(|ty| same_kind(ty.kind, wanted.kind));
        Ok(named.iter().filter(of_kind).copied().collect())
    }

    /// Takes `steps` from what may still be done.
    fn work(&self, steps: u64) -> Result<(), CoreError> {
        let left = self.work_left.get().checked_sub(steps).ok_or(CoreError::TooBig)?;
        self.work_left.set(left);
        Ok(())
    }

    /// Goes from type `root` of the target by the names of `steps`.
    fn follow(&self, local: &Btf, root: TypeId, steps: &[Step]) -> Option<Field> {
        let mut field = Field { ty: root, bit_offset: 0, bits: None };
        for (position, step) in steps.iter().enumerate() {
            field = match *step {
                Step::Index(index) if position == 0 => element(self.btf, field, root, index)?,
                Step::Index(index) => {
                    let array = self.btf.resolve(field.ty).filter(|ty| ty.kind == Kind::Array)?;
                    // An array of 0 at the end of a struct goes on.
                    let inside = index < array.extra[2] || array.extra[2] == 0;
                    inside.then(|| element(self.btf, field, array.extra[0], index))??
                }
                Step::Member { name, ty } => {
                    let found = self.find_member(field, name, DEPTH_MAX)?;
                    fields_alike(local, ty, self.btf, found.ty).then_some(found)?
                }
            };
        }
        Some(field)
    }

    /// The member called `name` of the struct at `from`, also inside members without a name.
    fn find_member(&self, from: Field, name: &str, depth: usize) -> Option<Field> {
        let btf = self.btf;
        let ty = btf.resolve(from.ty).filter(|ty| matches!(ty.kind, Kind::Struct | Kind::Union))?;
        for words in ty.extra.chunks_exact(3) {
            if self.work(1).is_err() {
                self.work_left.set(0);
                return None;
            }
            let field = member(btf, ty, from, words)?;
            if words[0] == 0 || btf.name(words[0]) == Some("") {
                if depth > 0
                    && let Some(found) = self.find_member(field, name, depth - 1)
                {
                    return Some(found);
                }
            } else if btf.name(words[0]) == Some(name) {
                return Some(field);
            }
        }
        None
    }
}

/// `name` without what follows three underscores, which tells variants of one type apart.
fn essential(name: &str) -> &str {
    match name.find("___") {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

/// The one value that all of `answers` are.
fn one<T: PartialEq + Copy>(answers: &[T]) -> Result<Option<T>, CoreError> {
    match answers {
        [] => Ok(None),
        [first, rest @ ..] if rest.iter().all(|other| other == first) => Ok(Some(*first)),
        _ => Err(CoreError::Ambiguous { candidates: answers.len() }),
    }
}

/// The steps that an access string (`0:2:1`) names, and where they lead.
fn local_path<'a>(local: &'a Btf, relocation: &CoreRelocation) -> Result<(Vec<Step<'a>>, Field), CoreError> {
    let text = local.name(relocation.access).ok_or(CoreError::Malformed)?;
    let mut steps = Vec::new();
    let mut field = Field { ty: relocation.ty, bit_offset: 0, bits: None };
    for (position, index) in text.split(':').enumerate() {
        let index: u32 = index.parse().map_err(|_| CoreError::Malformed)?;
        if position == STEPS_MAX {
            return Err(CoreError::Malformed);
        }
        let next = if position == 0 {
            steps.push(Step::Index(index));
            element(local, field, relocation.ty, index)
        } else {
            local_step(local, field, index, &mut steps)
        };
        field = next.ok_or(CoreError::Malformed)?;
    }
    Ok((steps, field))
}

fn local_step<'a>(local: &'a Btf, from: Field, index: u32, steps: &mut Vec<Step<'a>>) -> Option<Field> {
    let ty = local.resolve(from.ty)?;
    match ty.kind {
        Kind::Array => {
            steps.push(Step::Index(index));
            element(local, from, ty.extra[0], index)
        }
        Kind::Struct | Kind::Union => {
            let words = ty.extra.chunks_exact(3).nth(index as usize)?;
            let name = local.name(words[0])?;
            // A member without a name is passed through, there as here.
            if !name.is_empty() {
                steps.push(Step::Member { name, ty: words[1] });
            }
            member(local, ty, from, words)
        }
        _ => None,
    }
}

/// Element `index` of elements of type `ty` that begin where `from` does.
fn element(btf: &Btf, from: Field, ty: TypeId, index: u32) -> Option<Field> {
    let bytes = match index {
        0 => 0,
        _ => u64::from(btf.size_of(ty)?) * u64::from(index),
    };
    Some(Field { ty, bit_offset: from.bit_offset.checked_add(bytes.checked_mul(8)?)?, bits: None })
}

/// The member of struct `ty`, which stands at `from`, that `words` describe.
fn member(btf: &Btf, ty: Type, from: Field, words: &[u32]) -> Option<Field> {
    let (offset, mut bits) = match ty.flag {
        true => (words[2] & 0xff_ffff, Some(words[2] >> 24).filter(|bits| *bits > 0)),
        false => (words[2], None),
    };
    let mut bit_offset = from.bit_offset.checked_add(offset.into())?;
    // The older form of a bit field: an integer type of fewer bits than its bytes have.
    if let Some(int) = btf.resolve(words[1]).filter(|ty| ty.kind == Kind::Int && bits.is_none()) {
        let (int_offset, int_bits) = (int.extra[0] >> 16 & 0xff, int.extra[0] & 0xff);
        if int_offset != 0 || u64::from(int_bits) != u64::from(int.size_or_type) * 8 {
            bit_offset += u64::from(int_offset);
            bits = Some(int_bits);
        }
    }
    Some(Field { ty: words[1], bit_offset, bits })
}

fn same_kind(left: Kind, right: Kind) -> bool {
    let is_enum = |kind| matches!(kind, Kind::Enum | Kind::Enum64);
    left == right || is_enum(left) && is_enum(right)
}

/// Whether a field of one type may stand for one of the other.
fn fields_alike(local: &Btf, mut left: TypeId, target: &Btf, mut right: TypeId) -> bool {
    for _ in 0..DEPTH_MAX {
        let (Some(a), Some(b)) = (local.resolve(left), target.resolve(right)) else { return false };
        let is_composite = |ty: Type| matches!(ty.kind, Kind::Struct | Kind::Union);
        if is_composite(a) && is_composite(b) {
            return true;
        }
        if !same_kind(a.kind, b.kind) {
            return false;
        }
        match a.kind {
            Kind::Pointer | Kind::Float | Kind::Int => return true,
            Kind::Enum | Kind::Enum64 | Kind::Forward => {
                let names = (local.name(a.name), target.name(b.name));
                let (Some(a), Some(b)) = names else { return false };
                return a.is_empty() || b.is_empty() || essential(a) == essential(b);
            }
            Kind::Array => (left, right) = (a.extra[0], b.extra[0]),
            _ => return false,
        }
    }
    false
}

/// Whether two types are alike for the questions about whole types: of one kind, pointers and arrays to the bottom.
fn types_alike(local: &Btf, left: TypeId, target: &Btf, right: TypeId, depth: usize) -> bool {
    let (a, b) = match (local.resolve(left), target.resolve(right)) {
        (Some(a), Some(b)) => (a, b),
        (None, None) => return left == 0 && right == 0,
        _ => return false,
    };
    if depth == 0 || !same_kind(a.kind, b.kind) {
        return false;
    }
    let inner = |left, right| types_alike(local, left, target, right, depth - 1);
    match a.kind {
        Kind::Struct | Kind::Union | Kind::Enum | Kind::Enum64 | Kind::Forward | Kind::Int | Kind::Float => {
            true
        }
        Kind::Pointer => inner(a.size_or_type, b.size_or_type),
        Kind::Array => inner(a.extra[0], b.extra[0]),
        Kind::Prototype => {
            // Each parameter is a name and a type. Without a bound on breadth, depth alone would not end this.
            a.extra.len() == b.extra.len()
                && a.extra.len() <= 2 * PARAMETERS_MAX
                && depth > DEPTH_MAX - PROTOTYPES_MAX
                && inner(a.size_or_type, b.size_or_type)
                && a.extra.chunks_exact(2).zip(b.extra.chunks_exact(2)).all(|(a, b)| inner(a[1], b[1]))
        }
        _ => false,
    }
}

/// Parameters of a prototype that are compared.
const PARAMETERS_MAX: usize = 16;
/// How deep in a type prototypes are still compared.
const PROTOTYPES_MAX: usize = 4;

/// Offset of the name, and value, of each enumerator.
fn enumerators<'a>(ty: Type<'a>) -> impl Iterator<Item = (u32, u64)> + 'a {
    let each = match ty.kind {
        Kind::Enum => 2,
        _ => 3,
    };
    let words = if matches!(ty.kind, Kind::Enum | Kind::Enum64) { ty.extra } else { &[] };
    words.chunks_exact(each).map(move |words| {
        let value = match each {
            2 if ty.flag => words[1] as i32 as u64,
            2 => words[1].into(),
            _ => u64::from(words[2]) << 32 | u64::from(words[1]),
        };
        (words[0], value)
    })
}

/// The unit that a load of the field takes: its byte offset and bytes.
fn unit(btf: &Btf, field: Field) -> Result<(u64, u64), CoreError> {
    let mut bytes = u64::from(btf.size_of(field.ty).ok_or(CoreError::Malformed)?);
    let Some(bits) = field.bits else { return Ok((field.bit_offset / 8, bytes)) };
    if bytes == 0 {
        return Err(CoreError::Malformed);
    }
    loop {
        let offset = field.bit_offset / 8 / bytes * bytes;
        if field.bit_offset + u64::from(bits) - offset * 8 <= bytes * 8 {
            return Ok((offset, bytes));
        }
        if bytes >= 8 {
            return Err(CoreError::BitField);
        }
        bytes *= 2;
    }
}

/// The answer to a question about a field that is there.
fn number(btf: &Btf, field: Field, ask: Ask) -> Result<u64, CoreError> {
    if ask == Ask::Offset && field.bits.is_none() {
        return Ok(field.bit_offset / 8);
    }
    if ask == Ask::Signed {
        let ty = btf.resolve(field.ty).ok_or(CoreError::Malformed)?;
        return Ok(u64::from(is_signed(ty)));
    }
    let (offset, bytes) = unit(btf, field)?;
    let bits = field.bits.map_or(bytes * 8, u64::from);
    // Shifts make no sense for what no register holds.
    let within = |shift: Option<u64>| shift.filter(|shift| *shift < 64).ok_or(CoreError::Malformed);
    Ok(match ask {
        Ask::Offset => offset,
        Ask::Bytes => bytes,
        Ask::LeftShift => within(64u64.checked_sub(bits + field.bit_offset - offset * 8))?,
        _ => within(64u64.checked_sub(bits))?,
    })
}

fn is_signed(ty: Type) -> bool {
    match ty.kind {
        Kind::Int => ty.extra[0] >> 24 & 1 == 1,
        Kind::Enum | Kind::Enum64 => ty.flag,
        _ => false,
    }
}

/// How a load of the field has to change with its bytes; none for what is not loaded at once.
fn access(local: &Btf, from: Field, target: &Btf, to: Field) -> Option<Access> {
    let plain = |btf: &Btf, field: Field| {
        let ty = btf.resolve(field.ty)?;
        let is_plain = match ty.kind {
            Kind::Pointer => true,
            Kind::Int => !is_signed(ty),
            _ => false,
        };
        Some((is_plain && field.bits.is_none(), ty.kind))
    };
    let ((a, left), (b, right)) = (plain(local, from)?, plain(target, to)?);
    let bytes = |btf, field| unit(btf, field).ok().and_then(|(_, bytes)| u32::try_from(bytes).ok());
    Some(Access {
        local_bytes: bytes(local, from)?,
        target_bytes: bytes(target, to)?,
        resizable: a && b && left == right,
    })
}
