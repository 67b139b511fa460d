//! The words of traces: what a trace, its clocks, streams, events and fields are, whichever text described them.
//!
//! A trace has clocks and classes of streams; a stream is a sequence of packets, and a packet one of events, each of a class. What lies
//! in a packet is in scopes, one structure each ([`Scope`]). Sizes and alignments are in bits, as in CTF's own texts.
//!
//! Guaranteed of a trace class that a reader of this crate returns ([`crate::read::metadata`]): references lead to an integer that lies
//! before what refers to it, alignments are powers of two, an integer has 1 to 64 bits, and everything is within [`crate::limits`].

/// Everything that the metadata of a trace says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TraceClass {
    /// Of the trace, which each packet repeats.
    pub uuid: Option<[u8; 16]>,
    /// That of what does not name its own.
    pub order: ByteOrder,
    /// What the tracer says of itself and its surroundings, in the order of the text.
    pub environment: Vec<(String, Value)>,
    /// By which times are counted.
    pub clocks: Vec<ClockClass>,
    /// What each packet begins with.
    pub packet_header: Option<Field>,
    /// In ascending order of their numbers.
    pub streams: Vec<StreamClass>,
    /// A packet that says how long its content is, and not how long it is itself, ends with its content (CTF 2), not with its file.
    pub is_unpadded: bool,
}

/// A value of the environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A number.
    Int(i128),
    /// A text.
    Str(String),
}

/// Counts cycles since an origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockClass {
    /// By which the metadata refers to it.
    pub name: String,
    /// Clocks with the same one count the same time.
    pub uuid: Option<[u8; 16]>,
    /// For people.
    pub description: Option<String>,
    /// Cycles a second.
    pub frequency: u64,
    /// Cycles.
    pub precision: u64,
    /// Where the clock's zero lies behind 1970: seconds, and cycles.
    pub offset_s: i64,
    /// Cycles that are added, after the seconds.
    pub offset_cycles: u64,
    /// Clocks that are so can be compared.
    pub is_absolute: bool,
}

impl Default for ClockClass {
    fn default() -> ClockClass {
        ClockClass {
            name: "default".to_owned(),
            uuid: None,
            description: None,
            frequency: 1_000_000_000,
            precision: 0,
            offset_s: 0,
            offset_cycles: 0,
            is_absolute: false,
        }
    }
}

impl ClockClass {
    /// Nanoseconds since 1970, rounded down; `None` beyond what 64 bits hold (the years 1677 to 2262).
    pub fn ns(&self, cycles: u64) -> Option<i64> {
        let cycles = i128::from(cycles) + i128::from(self.offset_cycles);
        let ns = match self.frequency {
            1_000_000_000 => cycles,
            frequency => cycles * 1_000_000_000 / i128::from(frequency.max(1)),
        };
        i64::try_from(i128::from(self.offset_s) * 1_000_000_000 + ns).ok()
    }
}

/// What the packets and events of a stream have in common.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StreamClass {
    /// Its number in packet headers.
    pub id: u64,
    /// Where the metadata has one.
    pub name: Option<String>,
    /// Index into [`TraceClass::clocks`].
    pub clock: Option<usize>,
    /// What follows the header of each packet.
    pub packet_context: Option<Field>,
    /// What each event begins with.
    pub event_header: Option<Field>,
    /// What each event of the stream has besides.
    pub common_context: Option<Field>,
    /// In ascending order of their numbers.
    pub events: Vec<EventClass>,
}

/// What events of one kind consist of.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EventClass {
    /// Its number in event headers.
    pub id: u64,
    /// `PROVIDER:EVENT` of LTTng and weir.
    pub name: Option<String>,
    /// 0 (emergency) to 14 (debug), as far as the tracer keeps to them.
    pub level: Option<i64>,
    /// What events of this kind have besides.
    pub specific_context: Option<Field>,
    /// Its own fields.
    pub payload: Option<Field>,
}

/// Where a structure of fields lies, in the order of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// Of the packet that is being read.
    PacketHeader,
    /// Of the packet that is being read.
    PacketContext,
    /// Of the event that is being read.
    EventHeader,
    /// Of the event that is being read.
    CommonContext,
    /// Of the event that is being read.
    SpecificContext,
    /// Of the event that is being read.
    Payload,
}

impl Scope {
    /// In the order of the bytes: the prefix of absolute references in CTF 1.8, and the name in CTF 2.
    pub const ALL: [(Scope, &'static str, &'static str); 6] = [
        (Scope::PacketHeader, "trace.packet.header", "packet-header"),
        (Scope::PacketContext, "stream.packet.context", "packet-context"),
        (Scope::EventHeader, "stream.event.header", "event-record-header"),
        (Scope::CommonContext, "stream.event.context", "event-record-common-context"),
        (Scope::SpecificContext, "event.context", "event-record-specific-context"),
        (Scope::Payload, "event.fields", "event-record-payload"),
    ];
}

/// A member of a structure, an option of a variant, or the structure of a scope (whose name is empty).
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// As it is shown.
    pub name: String,
    /// How its bits are read.
    pub class: FieldClass,
    /// Shown to nobody: all that is in it has a role, and nothing refers to it. It takes no slot in [`crate::Event`].
    pub is_hidden: bool,
}

impl Field {
    /// Of a name and a class.
    pub fn new(name: impl Into<String>, class: FieldClass) -> Field {
        Field { name: name.into(), class, is_hidden: false }
    }
}

/// What a field is.
#[derive(Clone, PartialEq, Debug)]
pub enum FieldClass {
    /// An integer.
    Int(Int),
    /// An integer whose values have names.
    Enum(Enum),
    /// True where any of its bits is set. Only in CTF 2, as the others that say so.
    Bool(Int),
    /// Bits some of which have names: each label with the bits that it stands for, 0 the lowest (CTF 2).
    Flags(Enum),
    /// A number of IEEE 754.
    Float(Float),
    /// Bytes up to a NUL, from a whole byte on.
    Str,
    /// Text in units of two or four bytes (CTF 2).
    Wide(Wide),
    /// Fields, one after the other.
    Struct(Struct),
    /// As many elements as the class says.
    Array(Array),
    /// As many elements as an integer before it says.
    Sequence(Sequence),
    /// One of several fields, which one an integer before it says.
    Variant(Variant),
    /// A field or none, which an integer or a boolean before it says (CTF 2).
    Optional(Optional),
}

/// An integer in a fixed number of bits, or in as many bytes as it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Int {
    /// 64 where [`Int::is_variable`].
    pub bits: u8,
    /// In bits.
    pub align: u32,
    /// In two's complement.
    pub is_signed: bool,
    /// Of its bytes.
    pub order: ByteOrder,
    /// In which it is shown.
    pub base: Base,
    /// An array of such is characters (UTF-8).
    pub is_text: bool,
    /// Index into [`TraceClass::clocks`]: the value is this clock's, or its lowest bits.
    pub clock: Option<usize>,
    /// What the reader uses it for, if it does.
    pub role: Option<Role>,
    /// Its first bit is its highest where its byte order is little-endian, and its lowest where that is big-endian (CTF 2).
    pub is_reversed: bool,
    /// Seven bits in each byte, the lowest first, up to a byte whose highest bit is 0 (LEB128; CTF 2).
    pub is_variable: bool,
}

impl Int {
    /// Of whole bytes that may lie at any byte: how tracers write fields.
    pub fn packed(bits: u8, is_signed: bool, order: ByteOrder) -> Int {
        Int {
            bits,
            align: 8,
            is_signed,
            order,
            base: Base::Decimal,
            is_text: false,
            clock: None,
            role: None,
            is_reversed: false,
            is_variable: false,
        }
    }

    /// As many bytes as the value needs.
    pub fn variable(is_signed: bool) -> Int {
        Int { is_variable: true, ..Int::packed(64, is_signed, ByteOrder::Little) }
    }

    /// Its least and its largest value.
    pub fn range(&self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1 << (self.bits.max(1) - 1)), (1 << (self.bits.max(1) - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }
}

/// Which byte is first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ByteOrder {
    /// The least significant.
    #[default]
    Little,
    /// The most significant.
    Big,
}

/// How numbers are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Base {
    /// With `0b`.
    Binary,
    /// With `0`.
    Octal,
    /// With a sign, where it is negative.
    #[default]
    Decimal,
    /// With `0x`.
    Hexadecimal,
}

/// What a value is for, beside being shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// 0xc1fc1fc1.
    Magic,
    /// Which stream class the packet is of.
    StreamClassId,
    /// Which stream of that.
    StreamId,
    /// Bits, with what is left empty at the end.
    PacketLength,
    /// Bits, from the packet's beginning to the end of its last event.
    ContentLength,
    /// Of the packet in its stream.
    SequenceNumber,
    /// Events that this stream has lost since it began.
    DiscardedEvents,
    /// When the packet begins.
    BeginTime,
    /// When it ends.
    EndTime,
    /// Which event class the event is of.
    EventId,
}

impl Role {
    /// How many there are.
    pub const COUNT: usize = Role::EventId as usize + 1;
}

/// An integer whose values have names.
#[derive(Clone, PartialEq, Debug)]
pub struct Enum {
    /// Of its values.
    pub int: Int,
    /// Names with the values that they stand for, each from a first to a last; ranges may overlap.
    pub labels: Vec<(String, i128, i128)>,
}

impl Enum {
    /// The names of a value, whose bits these are, each once.
    pub fn labels_of(&self, bits: u64) -> Vec<&str> {
        let value = if self.int.is_signed { i128::from(bits as i64) } else { i128::from(bits) };
        let mut found: Vec<&str> = Vec::new();
        for (label, first, last) in &self.labels {
            if (*first..=*last).contains(&value) && !found.contains(&label.as_str()) {
                found.push(label);
            }
        }
        found
    }
}

impl Enum {
    /// The names of bits ([`FieldClass::Flags`]) of which at least one is set, each once.
    pub fn active(&self, bits: u64) -> Vec<&str> {
        let is_set = |first: i128, last: i128| {
            let (first, last) = (first.max(0), last.min(63));
            first <= last && bits >> first & (u64::MAX >> (63 - (last - first))) != 0
        };
        let mut found: Vec<&str> = Vec::new();
        for (label, first, last) in &self.labels {
            if is_set(*first, *last) && !found.contains(&label.as_str()) {
                found.push(label);
            }
        }
        found
    }
}

/// IEEE 754, in 32 or 64 bits; in CTF 2 also in 16.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Float {
    /// 16, 32 or 64.
    pub bits: u8,
    /// In bits.
    pub align: u32,
    /// Of its bytes.
    pub order: ByteOrder,
    /// As of [`Int::is_reversed`].
    pub is_reversed: bool,
}

impl Float {
    /// Of these; the rest as it is where nothing is said.
    pub fn new(bits: u8, align: u32, order: ByteOrder) -> Float {
        Float { bits, align, order, is_reversed: false }
    }
}

/// Text in UTF-16 or UTF-32, from a whole byte on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wide {
    /// Of its characters.
    pub encoding: Encoding,
    /// Where it ends.
    pub length: Length,
}

impl Wide {
    /// The text of such bytes. What is no character becomes U+FFFD.
    pub fn text(&self, bytes: &[u8]) -> String {
        let (units, rest) = bytes.as_chunks::<2>();
        match self.encoding {
            Encoding::Utf16(order) => {
                let units = units.iter().map(|unit| match order {
                    ByteOrder::Little => u16::from_le_bytes(*unit),
                    ByteOrder::Big => u16::from_be_bytes(*unit),
                });
                let units = units.chain((!rest.is_empty()).then_some(0xd800));
                char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            Encoding::Utf32(order) => {
                let units = bytes.chunks(4).map(|unit| match (<[u8; 4]>::try_from(unit), order) {
                    (Ok(unit), ByteOrder::Little) => u32::from_le_bytes(unit),
                    (Ok(unit), ByteOrder::Big) => u32::from_be_bytes(unit),
                    (Err(_), _) => u32::MAX,
                });
                units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
        }
    }
}

/// How characters are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// In units of two bytes.
    Utf16(ByteOrder),
    /// In units of four bytes.
    Utf32(ByteOrder),
}

impl Encoding {
    /// With their names in CTF 2.
    pub(crate) const ALL: [(&'static str, Encoding); 4] = [
        ("utf-16le", Encoding::Utf16(ByteOrder::Little)),
        ("utf-16be", Encoding::Utf16(ByteOrder::Big)),
        ("utf-32le", Encoding::Utf32(ByteOrder::Little)),
        ("utf-32be", Encoding::Utf32(ByteOrder::Big)),
    ];

    /// Bytes of a unit: a NUL has as many.
    pub fn unit_bytes(self) -> u8 {
        match self {
            Encoding::Utf16(_) => 2,
            Encoding::Utf32(_) => 4,
        }
    }
}

/// Where a text ends: at the latest at its first NUL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Length {
    /// At the first unit that is 0.
    UpToNul,
    /// So many bytes.
    Fixed(u64),
    /// As many bytes as an integer before it says.
    Dynamic(Reference),
}

/// Fields, one after the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Struct {
    /// In their order.
    pub fields: Vec<Field>,
    /// The least alignment; members may ask for more.
    pub align: u32,
}

/// Elements, of a number that the metadata has.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// Of each.
    pub element: Box<FieldClass>,
    /// How many.
    pub count: u64,
    /// These are the bytes of the trace's UUID.
    pub is_uuid: bool,
    /// The least alignment; elements may ask for more.
    pub align: u32,
    /// Bytes that mean something as a whole (CTF 2).
    pub is_blob: bool,
}

impl Array {
    /// Without alignment of its own.
    pub fn new(element: FieldClass, count: u64) -> Array {
        Array { element: Box::new(element), count, is_uuid: false, align: 1, is_blob: false }
    }
}

/// Elements, of a number that an earlier field has.
#[derive(Clone, PartialEq, Debug)]
pub struct Sequence {
    /// Of each.
    pub element: Box<FieldClass>,
    /// Where their number is.
    pub length: Reference,
    /// As of [`Array::align`].
    pub align: u32,
    /// As of [`Array::is_blob`].
    pub is_blob: bool,
}

impl Sequence {
    /// Without alignment of its own.
    pub fn new(element: FieldClass, length: Reference) -> Sequence {
        Sequence { element: Box::new(element), length, align: 1, is_blob: false }
    }
}

/// One of several fields, which an earlier field chooses.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// That field.
    pub selector: Reference,
    /// The fields.
    pub options: Vec<Choice>,
}

/// One of the fields of a variant.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The field.
    pub field: Field,
    /// Values of the selector that choose it, each from a first to a last.
    pub ranges: Vec<(i128, i128)>,
}

/// A field that is there or not, as an earlier one says.
#[derive(Clone, PartialEq, Debug)]
pub struct Optional {
    /// That one.
    pub selector: Reference,
    /// Values of the selector with which the field is there, each from a first to a last; `None`: the selector is a boolean.
    pub ranges: Option<Vec<(i128, i128)>>,
    /// What is there.
    pub field: Box<FieldClass>,
}

/// The name of a field that was read before: the members on the way to it, from the scope's structure on. In CTF 1.8 the options of variants
/// on the way are named too, in CTF 2 they are not.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reference {
    /// Where it is looked for.
    pub scope: Scope,
    /// The way there, from the outermost structure.
    pub names: Vec<String>,
}

impl FieldClass {
    /// The integer that this is or that it names.
    pub fn int(&self) -> Option<&Int> {
        match self {
            FieldClass::Int(int) | FieldClass::Bool(int) => Some(int),
            FieldClass::Enum(Enum { int, .. }) | FieldClass::Flags(Enum { int, .. }) => Some(int),
            _ => None,
        }
    }

    /// The integer that it is, or that its values are of.
    pub fn int_mut(&mut self) -> Option<&mut Int> {
        match self {
            FieldClass::Int(int) | FieldClass::Bool(int) => Some(int),
            FieldClass::Enum(Enum { int, .. }) | FieldClass::Flags(Enum { int, .. }) => Some(int),
            _ => None,
        }
    }

    /// Elements of this class are characters.
    pub fn is_character(&self) -> bool {
        self.int().is_some_and(|int| int.is_text && int.bits == 8 && int.align == 8)
    }

    /// Where it may begin: at a multiple of so many bits.
    pub fn align(&self) -> u32 {
        match self {
            FieldClass::Int(int) | FieldClass::Bool(int) => int.align,
            FieldClass::Enum(Enum { int, .. }) | FieldClass::Flags(Enum { int, .. }) => int.align,
            FieldClass::Float(float) => float.align,
            FieldClass::Str | FieldClass::Wide(_) => 8,
            FieldClass::Struct(of) => {
                let members = of.fields.iter().map(|field| field.class.align());
                members.max().unwrap_or(1).max(of.align).max(1)
            }
            FieldClass::Array(Array { element, align, .. })
            | FieldClass::Sequence(Sequence { element, align, .. }) => element.align().max(*align),
            // What they have has its own.
            FieldClass::Variant(_) | FieldClass::Optional(_) => 1,
        }
    }

    /// Bytes of an element, if elements of this class lie one behind the other in whole bytes, without gaps.
    pub fn packed_bytes(&self) -> Option<u32> {
        let (bits, align) = match self {
            FieldClass::Float(float) if float.bits != 16 && !float.is_reversed => (float.bits, float.align),
            _ => {
                let int = self.int().filter(|int| !int.is_variable && !int.is_reversed)?;
                (int.bits, int.align)
            }
        };
        let (bits, align) = (u32::from(bits), align.max(1));
        (matches!(bits, 8 | 16 | 32 | 64) && align >= 8 && bits % align == 0).then_some(bits / 8)
    }
}

/// The fields directly in this one, to be looked at or changed.
impl FieldClass {
    pub(crate) fn below_mut(&mut self) -> Vec<&mut FieldClass> {
        match self {
            FieldClass::Struct(of) => of.fields.iter_mut().map(|field| &mut field.class).collect(),
            FieldClass::Variant(of) => of.options.iter_mut().map(|choice| &mut choice.field.class).collect(),
            FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
                vec![element]
            }
            FieldClass::Optional(of) => vec![&mut of.field],
            FieldClass::Int(_)
            | FieldClass::Enum(_)
            | FieldClass::Bool(_)
            | FieldClass::Flags(_)
            | FieldClass::Float(_)
            | FieldClass::Str
            | FieldClass::Wide(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_s_cycles_are_nanoseconds_since_1970() {
        let clock = ClockClass { offset_s: 1, offset_cycles: 500, ..ClockClass::default() };
        assert_eq!(clock.ns(7), Some(1_000_000_507));
        let slow = ClockClass { frequency: 3, offset_cycles: 1, ..ClockClass::default() };
        assert_eq!(slow.ns(1), Some(666_666_666));
        let far = ClockClass { frequency: 1, ..ClockClass::default() };
        assert_eq!(far.ns(u64::MAX), None);
        let before = ClockClass { offset_s: -2, ..ClockClass::default() };
        assert_eq!(before.ns(1), Some(-1_999_999_999));
    }

    #[test]
    fn flags_are_active_where_one_of_their_bits_is_set() {
        let range = |label: &str, first, last| (label.to_owned(), first, last);
        // CTF2-SPEC-2.0, example 16.
        let labels = vec![
            range("Mercury", 7, 7),
            range("Venus", 6, 6),
            range("Venus", 2, 3),
            range("Earth", 5, 7),
            range("Mars", 0, 1),
        ];
        let of = Enum { int: Int::packed(8, false, ByteOrder::Little), labels };
        assert_eq!(of.active(0b1010_0010), ["Mercury", "Earth", "Mars"]);
        let all = Enum { labels: vec![range("all", -5, 200), range("none", 64, 99)], ..of };
        assert_eq!((all.active(0), all.active(1), all.active(1 << 63)), (vec![], vec!["all"], vec!["all"]));
    }

    #[test]
    fn wide_texts_are_decoded() {
        let text = |encoding, bytes: &[u8]| Wide { encoding, length: Length::UpToNul }.text(bytes);
        assert_eq!(
            text(Encoding::Utf16(ByteOrder::Little), &[0x3d, 0xd8, 0x00, 0xde, b'a', 0]),
            "\u{1f600}a"
        );
        assert_eq!(text(Encoding::Utf16(ByteOrder::Big), &[0, b'a', 0xd8, 0x3d, 0]), "a\u{fffd}\u{fffd}");
        assert_eq!(
            text(Encoding::Utf32(ByteOrder::Big), &[0, 1, 0xf6, 0, 0, 0x11, 0, 0]),
            "\u{1f600}\u{fffd}"
        );
        assert_eq!(text(Encoding::Utf32(ByteOrder::Little), &[b'b', 0, 0, 0, 0]), "b\u{fffd}");
    }

    #[test]
    fn a_structure_is_aligned_as_its_members_or_more() {
        let int = |align| FieldClass::Int(Int { align, ..Int::packed(32, false, ByteOrder::Little) });
        let of = |align, fields: &[u32]| {
            let fields = fields.iter().map(|align| Field::new("f", int(*align))).collect();
            FieldClass::Struct(Struct { fields, align }).align()
        };
        assert_eq!((of(1, &[]), of(1, &[8, 32]), of(64, &[32])), (1, 32, 64));
    }
}
