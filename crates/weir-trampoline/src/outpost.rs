//! Outposts: pages at the addresses that punned jumps lead to, with a jump to the trampoline each.
//!
//! In: punned sites, each with the range of addresses that its jump can lead to, and what is taken. Out: pages, and in
//! them one `jmp rel32` for each site. Sites share a page where their ranges allow it. A page belongs to outposts whole:
//! nothing else is put there, and it must be free.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::island::Entry;
use crate::limits::{JUMP_BYTES, JUMP_REACH, LOWEST_ADDRESS, OUTPOSTS_MAX};

const PAGE: u64 = 4096;

/// One page, or several that follow each other.
#[derive(Clone, Debug)]
pub struct Outpost {
    pub address: u64,
    pub bytes: Vec<u8>,
    pub sites: Vec<usize>,
}

impl Outpost {
    pub fn range(&self) -> Range<u64> {
        self.address..self.address + self.bytes.len() as u64
    }
}

/// A punned site: where its jump can lead to, and its trampoline.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    pub targets: Range<u64>,
    pub entry: &'a Entry,
}

/// Finds room for `wanted`: the outposts, and where the jump of each site leads to. Sites without room are in neither.
pub fn place(wanted: &[Wanted], taken: &[Range<u64>]) -> (Vec<Outpost>, BTreeMap<usize, u64>) {
    let mut pages = Pages::default();
    let mut landings = BTreeMap::new();
    // Those with the least choice first.
    let mut order: Vec<&Wanted> = wanted.iter().collect();
    order.sort_by_key(|wanted| (wanted.targets.end - wanted.targets.start, wanted.targets.start));
    for wanted in order {
        if let Some(address) = find(wanted, &pages, taken) {
            pages.put(address, jump(address, wanted.entry.address));
            landings.insert(wanted.entry.site, address);
        }
    }
    (join(pages.bytes, &landings), landings)
}

/// Pages by address, and which of their bytes are taken.
#[derive(Default)]
struct Pages {
    bytes: BTreeMap<u64, Vec<u8>>,
    used: BTreeSet<u64>,
}

impl Pages {
    fn put(&mut self, address: u64, jump: [u8; JUMP_BYTES]) {
        for (at, byte) in (address..).zip(jump) {
            let page = self.bytes.entry(at / PAGE * PAGE).or_insert_with(|| vec![FREE; PAGE as usize]);
            page[(at % PAGE) as usize] = byte;
            self.used.insert(at);
        }
    }

    fn is_free(&self, address: u64) -> bool {
        self.used.range(address..address + JUMP_BYTES as u64).next().is_none()
    }
}

/// Bytes that hold no jump: int3, so that a stray jump stops at once.
const FREE: u8 = 0xcc;

/// The first address among its targets where a jump for `wanted` fits: in a page that there is, else in a new one.
fn find(wanted: &Wanted, pages: &Pages, taken: &[Range<u64>]) -> Option<u64> {
    let entry = wanted.entry.address;
    // 15 bits less than a jump reaches, for the length of the jump itself.
    let low = wanted.targets.start.max(LOWEST_ADDRESS).max(entry.saturating_sub(JUMP_REACH - (1 << 15)));
    let high = wanted.targets.end.min(entry.saturating_add(JUMP_REACH - (1 << 15)));
    let in_page = |&page: &u64| {
        let within = page.max(low)..(page + PAGE - JUMP_BYTES as u64 + 1).min(high);
        within.step_by(8).find(|&at| pages.is_free(at))
    };
    if let Some(found) = pages.bytes.keys().find_map(in_page) {
        return Some(found);
    }
    let mut at = low;
    while at < high {
        let pages_of = at / PAGE * PAGE..(at + JUMP_BYTES as u64).next_multiple_of(PAGE);
        let crosses = pages_of.end - pages_of.start > PAGE;
        let obstacle = taken.iter().find(|range| range.start < pages_of.end && pages_of.start < range.end);
        // A page of another outpost that has no room, or that this jump would reach into.
        let own = pages_of.clone().step_by(PAGE as usize).find(|page| pages.bytes.contains_key(page));
        match (obstacle, own) {
            (None, None) if pages.bytes.len() + usize::from(crosses) < OUTPOSTS_MAX => return Some(at),
            (Some(range), _) => at = range.end.max(at + 1),
            (None, Some(page)) => at = (page + PAGE).max(at + 1),
            (None, None) => return None,
        }
    }
    None
}

fn jump(from: u64, to: u64) -> [u8; JUMP_BYTES] {
    let displacement = to.wrapping_sub(from + JUMP_BYTES as u64) as i64;
    let displacement =
        i32::try_from(displacement).expect("an outpost is placed within reach of its trampolines");
    let mut bytes = [0xe9; JUMP_BYTES];
    bytes[1..].copy_from_slice(&displacement.to_le_bytes());
    bytes
}

/// Pages that follow each other, as one.
fn join(pages: BTreeMap<u64, Vec<u8>>, landings: &BTreeMap<usize, u64>) -> Vec<Outpost> {
    let mut outposts: Vec<Outpost> = Vec::new();
    for (address, bytes) in pages {
        match outposts.last_mut().filter(|last| last.range().end == address) {
            Some(last) => last.bytes.extend(bytes),
            None => outposts.push(Outpost { address, bytes, sites: Vec::new() }),
        }
    }
    for outpost in &mut outposts {
        let range = outpost.range();
        outpost.sites = landings.iter().filter(|(_, at)| range.contains(at)).map(|(&site, _)| site).collect();
    }
    outposts
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x5555_0000_0000;

    /// Where the jumps of sites with these targets (relative to `BASE`) lead to.
    fn check(targets: &[(u64, u64)], taken: &[(u64, u64)]) -> Vec<Option<u64>> {
        let entries: Vec<Entry> = (0..targets.len())
            .map(|site| {
                let (address, places) = (BASE - 0x10_0000, Vec::new());
                Entry { site, address, gate: 0, places, return_point: None }
            })
            .collect();
        let shift = |range: &(u64, u64)| BASE + range.0..BASE + range.1;
        let wanted: Vec<Wanted> = targets
            .iter()
            .zip(&entries)
            .map(|(range, entry)| Wanted { targets: shift(range), entry })
            .collect();
        let taken: Vec<Range<u64>> = taken.iter().map(shift).collect();
        let (outposts, landings) = place(&wanted, &taken);
        for (&site, &at) in &landings {
            let outpost = outposts.iter().find(|outpost| outpost.sites.contains(&site)).unwrap();
            let bytes = &outpost.bytes[(at - outpost.address) as usize..][..JUMP_BYTES];
            assert_eq!(bytes, jump(at, entries[site].address), "site {site}");
            assert!(
                taken.iter().all(|range| range.end <= outpost.address || outpost.range().end <= range.start)
            );
        }
        (0..targets.len()).map(|site| landings.get(&site).map(|at| at - BASE)).collect()
    }

    #[test]
    fn a_jump_stands_where_it_must() {
        assert_eq!(check(&[(0x1234, 0x1235)], &[]), [Some(0x1234)]);
        assert_eq!(check(&[(0x1ffe, 0x1fff)], &[]), [Some(0x1ffe)], "across pages");
    }

    #[test]
    fn sites_share_pages_where_they_can() {
        assert_eq!(
            check(&[(0x1000, 0x100_1000), (0x1000, 0x100_1000), (0x1800, 0x1801)], &[]),
            [Some(0x1000), Some(0x1008), Some(0x1800)]
        );
    }

    #[test]
    fn nothing_is_put_where_something_is() {
        assert_eq!(check(&[(0x1234, 0x1235)], &[(0, 0x2000)]), [None]);
        assert_eq!(check(&[(0x1ffe, 0x1fff)], &[(0x2000, 0x3000)]), [None]);
        assert_eq!(check(&[(0x1234, 0x2_1234)], &[(0, 0x3000)]), [Some(0x3000)]);
        assert_eq!(check(&[(0x1234, 0x1235), (0x1236, 0x1237)], &[])[1], None, "two jumps overlap");
    }

    #[test]
    fn what_a_jump_from_there_does_not_reach_is_left() {
        assert_eq!(check(&[(0x7fff_ff00, 0x8000_0000)], &[]), [None]);
    }

    #[test]
    fn the_number_of_pages_is_bounded() {
        let many: Vec<(u64, u64)> = (0..100).map(|n| (n * 0x2000, n * 0x2000 + 1)).collect();
        assert_eq!(check(&many, &[]).iter().flatten().count(), OUTPOSTS_MAX);
    }
}
