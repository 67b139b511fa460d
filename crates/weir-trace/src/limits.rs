//! Every bound of this crate. A trace beyond one is refused, or read up to there, with a message that names it.

use std::time::Duration;

/// LIMIT: bytes of a metadata file. Those of LTTng have some 400 an event; a kernel's with all events has about 1 MiB.
pub const METADATA_BYTES_MAX: u64 = 64 << 20;

/// LIMIT: how deep types may stand in one another. What people write has 4.
pub const DEPTH_MAX: usize = 32;

/// LIMIT: fields of a trace's classes, each counted as often as it is used. A kernel's trace with all events has about 30,000.
pub const FIELDS_MAX: usize = 1 << 18;

/// LIMIT: members of one structure or variant, and labels of one enumeration: names among them are looked for one by one.
pub const MEMBERS_MAX: usize = 1 << 12;

/// LIMIT: how deep lists and objects of CTF 2's metadata may stand in one another. A class within a class takes three levels.
pub const JSON_DEPTH_MAX: usize = 4 * DEPTH_MAX;

/// LIMIT: values of one fragment of CTF 2's metadata. An event has some ten a field.
pub const JSON_VALUES_MAX: usize = 1 << 20;

/// LIMIT: alignment in bits. What a reader holds of a packet begins at a multiple of it.
pub const ALIGN_BITS_MAX: u32 = 1 << 15;

/// Bytes of a packet that are held at first; more where one event needs more.
pub(crate) const WINDOW_BYTES: usize = 256 << 10;

/// LIMIT: bytes of one event. A ring's part is rarely larger than 64 MiB, and no event crosses two.
pub const EVENT_BYTES_MAX: usize = 64 << 20;

/// LIMIT: values of one event, where an array that is read as a whole counts as two.
pub const VALUES_MAX: usize = 1 << 20;

/// LIMIT: elements of one event that have no bits, of which a few bytes could ask for any number.
pub const EMPTY_ELEMENTS_MAX: u32 = 1 << 12;

/// LIMIT: files of one trace. LTTng has one for each processor and channel, times those that it rotates.
pub const FILES_MAX: usize = 1 << 14;

/// LIMIT: folders that are looked into for traces.
pub const FOLDERS_MAX: usize = 1 << 14;

/// LIMIT: bytes of the name of a stream's file, where a trace comes through a pipe.
pub const NAME_BYTES_MAX: usize = 64;

/// LIMIT: bytes of packets that come through a pipe in one frame: a packet has as much as its largest event, and writers' have 128 KiB.
pub const CONTENT_BYTES_MAX: usize = EVENT_BYTES_MAX + (1 << 20);

/// Bytes that wait for the reader of a pipe before a writer stops reading rings. What is written at once comes on top.
pub const SEND_BYTES: usize = 1 << 20;

/// How often a follower looks for the description of an event that it has come to, before it takes the stream for damaged. Ten seconds
/// where it looks ten times a second.
pub(crate) const UNDESCRIBED_LOOKS_MAX: u32 = 100;

/// How long a follower holds an event back for older ones that other streams may still bring. Writers flush every second.
pub(crate) const HOLD: Duration = Duration::from_millis(1500);

const _: () = assert!(WINDOW_BYTES.is_multiple_of(ALIGN_BITS_MAX as usize / 8));
const _: () = assert!(EVENT_BYTES_MAX.is_multiple_of(WINDOW_BYTES));
// Where a text lies and how long it is are two numbers of 32 bits in one slot.
const _: () = assert!((EVENT_BYTES_MAX as u64) < u32::MAX as u64 / 4);
