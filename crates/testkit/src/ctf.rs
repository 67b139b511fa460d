//! A strict checker of traces in CTF 1.8: what their metadata and packets must be by the specification's text.
//!
//! In: the bytes of a metadata file and of its streams. Out: how much is in them, or the first thing that is wrong, with its line or
//! byte and the [`Rule`] that it breaks. The rules are in one table, each with its place in the text of the Common Trace Format
//! (CTF 1.8.3: the format in sections 1 to 8, the language of metadata, TSDL, in C).
//!
//! Data goes one way: `lexer` makes tokens of the text, `syntax` the tree that section C.2 has, `describe` types of the tree (names,
//! attributes, what stands in which block), `place` lays types out in scopes and finds what lengths and tags refer to, `packet` decodes
//! the streams with that.
//!
//! It is no reader: it is strict where readers are lenient, it shares nothing with `weir-trace`, whose traces it is for, and it stops at
//! the first fault. Guaranteed: no input makes it panic or hang. Deliberately not checked, and refused by [`Rule::Unread`]: what the
//! grammar has and no tracer writes (bit-fields and pointers of C, declarators in brackets, character constants, universal character
//! names, references to the environment, clocks among the fields of events).

mod describe;
mod lexer;
mod packet;
mod place;
mod syntax;

use std::fmt;
use std::path::Path;

/// What a good trace has in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub packets: u64,
    pub events: u64,
    /// Events that the streams say they have lost.
    pub discarded: u64,
    /// Packets that are missing between others.
    pub lost_packets: u64,
}

/// The first thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub place: Place,
    pub rule: Rule,
    pub message: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// Of the metadata, from 1.
    Line(u32),
    /// Of a packet's header in metadata that is in packets.
    Metadata(u64),
    Stream {
        name: String,
        byte: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Line(line) => write!(f, "metadata, line {line}: ")?,
            Place::Metadata(byte) => write!(f, "metadata, byte {byte}: ")?,
            Place::Stream { name, byte } => write!(f, "{name}, byte {byte}: ")?,
        }
        let (section, text) = self.rule.text();
        write!(f, "{} ({section}: {text})", self.message)
    }
}

macro_rules! rules {
    ($($name:ident $section:literal $text:literal)*) => {
        /// What a trace can break, in the order in which it is looked at.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Rule { $($name,)* }

        impl Rule {
            pub const ALL: &[Rule] = &[$(Rule::$name,)*];

            /// The section of the specification, and what it asks for.
            pub fn text(self) -> (&'static str, &'static str) {
                match self { $(Rule::$name => ($section, $text),)* }
            }
        }
    };
}

rules! {
    Signature "7.1" "the text begins with the bytes of \"/* CTF 1.8\""
    Packetized "7.1" "packets of metadata have the header of the text, and sizes that fit"
    Encoding "7.1" "the metadata is plain text: UTF-8 without control characters but white space"
    Comment "7.1" "a comment ends with */"
    Token "C.1.7" "every character is in a comment, white space or a token"
    Constant "C.1.5" "numbers are decimal, octal (0…) or hexadecimal (0x…), with suffixes of C, in 64 bits"
    Literal "C.1.6" "strings end on their line, and escapes are those of C"
    Keyword "C.1.2" "a keyword is no identifier"
    Grammar "C.2" "the phrase structure of the language"
    Unread "C.2" "in the grammar, but not in this checker"
    Limit "-" "a bound of this checker"
    Block "7.4" "there is one trace block, and at most one env block"
    Attribute "7.4" "a block has attributes of its own, each once"
    Missing "7.4" "what a block must say is said; weir leaves out nothing that events are found by"
    Value "7.4" "the value of an attribute is one that it may have"
    Version "7.4" "major is 1 and minor is 8"
    ByteOrder "4.1.3" "be, le; network and native in types alone"
    Uuid "7.1" "UUIDs are hexadecimal digits and dashes, 8-4-4-4-12"
    Size "4.1.5" "integers have 1 or more bits; and at most 64, which readers have"
    Align "4.1.2" "alignments are powers of two"
    Float "4.1.7" "floating-point numbers are those of IEEE 754: 8 + 24 or 11 + 53 digits"
    Map "8" "integers are mapped to the value of a clock that is declared"
    Clock "8" "names of clocks are identifiers, each one clock's; frequencies are positive"
    TypeName "7.3.1" "types are declared before they are used, and once in a scope"
    Enumeration "4.1.8" "enumerations have entries, each from a value to one that is not less, in an integer's range"
    FieldName "4.2.1" "names of fields are unique in their structure, with the underscore at their beginning and without"
    VariantPlace "4.2.2" "variants are in structures, and have tags"
    Tag "4.2.2" "a variant's tag is an enumeration before it"
    Label "4.2.2" "an option of a variant is an entry of its tag, and no value has two options"
    Length "4.2.4" "a sequence's length is an unsigned integer before it; an array's is a number"
    Scope "7.3.2" "a scope is a structure"
    MagicField "5" "the field magic comes first, with 32 bits, unsigned"
    UuidField "5" "the field uuid is 16 bytes, and the trace has a UUID"
    StreamField "5" "the field stream_id is an unsigned integer, and is there if there is more than one stream"
    ContextField "5.2" "sizes, counts and times of packets are unsigned integers, times of a clock and both of them"
    HeaderField "6.1" "events have an unsigned id in their header if there is more than one, and it has room for theirs"
    StreamNumber "7.4" "numbers of streams are unique, and events are of a stream that is declared"
    EventNumber "7.4" "numbers of events are unique in their stream"
    PacketMagic "5" "packets begin with 0xc1fc1fc1"
    PacketUuid "5" "packets have the UUID of the metadata"
    PacketStream "5" "packets are of a stream that is declared, all of a file of the same"
    PacketSize "5.2" "packets have whole bytes, at least those of their header, and lie in the file"
    ContentSize "5.2" "the content is in its packet, and its header in the content"
    PacketTimes "5" "packets end after they begin, and not before the one before them does"
    EventTimes "5" "events lie between the times of their packet, in the order of time"
    Sequence "5" "numbers of packets rise"
    Discarded "5" "counts of discarded events do not fall"
    Overrun "5.2" "the last event ends where the content ends"
    EventId "7.4" "events are declared"
    EventLength "6" "events have a length"
    Option "4.2.2" "a tag's value has an entry, and that an option"
    MixedOrder "4.1.5" "integers that share a byte have one byte order"
    Text "4.2.5" "strings end with a NUL and are in their encoding"
}

/// Checks metadata and its streams (their names, their bytes).
pub fn check(metadata: &[u8], streams: &[(String, Vec<u8>)]) -> Result<Counts, Fault> {
    let text = lexer::text(metadata)?;
    let tokens = lexer::tokens(&text)?;
    let blocks = syntax::parse(&tokens)?;
    let described = describe::describe(&blocks)?;
    let trace = place::place(&described)?;
    let mut counts = Counts::default();
    for (name, bytes) in streams {
        packet::check(&trace, name, bytes, &mut counts)?;
    }
    Ok(counts)
}

/// Checks a trace in a folder: its file `metadata`, and all others that are not hidden. What cannot be read panics.
pub fn check_folder(folder: &Path) -> Result<Counts, Fault> {
    let read =
        |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut streams = Vec::new();
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && name != "metadata" && !name.starts_with('.') {
            streams.push((name, read(&path)));
        }
    }
    streams.sort();
    check(&read(&folder.join("metadata")), &streams)
}

fn fault(line: u32, rule: Rule, message: impl Into<String>) -> Fault {
    Fault { place: Place::Line(line), rule, message: message.into() }
}

/// LIMIT: how deep types and brackets stand in one another.
const DEPTH_MAX: usize = 64;

/// LIMIT: fields of a trace, each counted as often as its type is used.
const FIELDS_MAX: usize = 1 << 18;

/// LIMIT: elements that one packet has without bits, of which a few bytes could ask for any number.
const EMPTY_ELEMENTS_MAX: u64 = 1 << 20;
