//! Every bound of this crate, named once.

use std::ops::RangeInclusive;

/// Of descriptors: from 2.13 on. What was before has another form of a provider's descriptor.
pub(crate) const VERSIONS: RangeInclusive<u32> = 3..=8;
/// Providers of one program.
pub(crate) const PROVIDERS_MAX: usize = 4096;
/// Places of one file that emit events.
pub(crate) const PLACES_MAX: usize = 1 << 16;
/// Events of one provider.
pub(crate) const EVENTS_MAX: u32 = 1 << 16;
/// Fields of one event.
pub(crate) const FIELDS_MAX: u64 = 256;
/// Names of an enumeration's values.
pub(crate) const LABELS_MAX: u64 = 4096;
/// Bytes of a name (lttng-ust's LTTNG_UST_ABI_SYM_NAME_LEN), and of a signature.
pub(crate) const NAME_BYTES_MAX: usize = 256;
/// A signature has a name and a type for each argument.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 14;
/// Reads of one search: of a few words for each place, and of what is found. A descriptor that is named a million times is not read as often.
pub(crate) const READS_MAX: u64 = 1 << 26;
