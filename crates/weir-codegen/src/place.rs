//! Where memory objects lie within their area.
//!
//! An object is wanted from the first to the last instruction that names it: what lies between may reach it by an
//! address. What was named before a loop, and is in it, is wanted to the loop's end. Objects that are never wanted at the same time
//! share bytes. First fit, in the order of first use.

use crate::lir::{Area, ByLabel, Inst, Object};

#[derive(Debug)]
pub(crate) struct Layout {
    /// By object: its first byte, a multiple of 8. 0 for objects of the other area and those never named.
    pub(crate) offsets: Vec<u32>,
    /// Bytes of the area, a multiple of 8.
    pub(crate) bytes: u32,
}

/// Places the objects of one area. `labels`: how many the function has.
pub(crate) fn layout<'a>(
    insts: impl Iterator<Item = &'a Inst>,
    labels: u32,
    objects: &[Object],
    area: Area,
) -> Layout {
    let mut wanted: Vec<Option<(usize, usize)>> = vec![None; objects.len()];
    let mut labels: ByLabel<usize> = ByLabel::new(labels);
    for (at, inst) in insts.enumerate() {
        if let Inst::Label(label) = inst {
            labels.set(*label, at);
        }
        if let Some(head) = inst.target().and_then(|target| labels.get(target)) {
            wanted
                .iter_mut()
                .flatten()
                .filter(|span| span.0 < head && span.1 >= head)
                .for_each(|span| span.1 = at);
        }
        if let Some(object) = inst.object().filter(|object| objects[object.0 as usize].area == area) {
            let span = wanted[object.0 as usize].get_or_insert((at, at));
            span.1 = at;
        }
    }
    let mut order: Vec<(usize, usize, usize)> = wanted
        .iter()
        .enumerate()
        .filter_map(|(object, span)| span.map(|(from, to)| (from, to, object)))
        .collect();
    order.sort_unstable();
    let mut offsets = vec![0; objects.len()];
    let mut bytes = 0;
    // Those placed so far that are still wanted, by offset.
    let mut live: Vec<(u32, u32, usize)> = Vec::new();
    for (from, to, object) in order {
        live.retain(|&(_, _, until)| until >= from);
        let length = objects[object].bytes.next_multiple_of(8);
        let mut offset = 0;
        for &(start, end, _) in &live {
            if offset + length <= start {
                break;
            }
            offset = offset.max(end);
        }
        offsets[object] = offset;
        bytes = bytes.max(offset + length);
        live.push((offset, offset + length, to));
        live.sort_unstable();
    }
    Layout { offsets, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lir::{Label, ObjectId};

    #[test]
    fn what_is_wanted_in_every_round_keeps_its_bytes() {
        let objects = [8, 8, 8].map(|bytes| Object { bytes, area: Area::Stack });
        let touch = |object| Inst::Touch(ObjectId(object));
        // 0 is made before the loop and read first in it; 1 comes and goes in each round; 2 is of what follows.
        let head = Label(0);
        let insts = [touch(0), Inst::Label(head), touch(0), touch(1), Inst::Jump(head), touch(2)];
        let Layout { offsets, bytes } = layout(insts.iter(), 1, &objects, Area::Stack);
        assert_eq!((offsets, bytes), (vec![0, 8, 0], 16));
    }

    #[test]
    fn objects_share_bytes_only_when_not_wanted_together() {
        let objects = [24, 8, 16, 4].map(|bytes| Object { bytes, area: Area::Stack });
        let touch = |object| Inst::Touch(ObjectId(object));
        // 0 and 1 together, then 1 and 2, then 3 alone.
        let insts = [touch(0), touch(1), touch(0), touch(2), touch(1), touch(2), touch(3)];
        let Layout { offsets, bytes } = layout(insts.iter(), 1, &objects, Area::Stack);
        assert_eq!(offsets, [0, 24, 0, 0]);
        assert_eq!(bytes, 32);
    }
}
