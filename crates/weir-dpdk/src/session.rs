//! One capture: a segment → callbacks on the queues that it names, and everything taken back.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;

use weir_packet_ring::{Direction, RingSpec, Segment};

use crate::burst::Active;
use crate::dpdk::{Callback, Dpdk};
use crate::filter;
use crate::ids::Ids;
use crate::owner::Owner;
use crate::tap::{Tap, on_rx, on_tx};

/// What is running.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) owner: Owner,
    armed: Vec<Armed>,
}

/// A tap with a callback.
#[derive(Debug)]
struct Armed {
    tap: &'static Tap,
    callback: Callback,
}

/// What stays from one capture to the next.
#[derive(Debug)]
pub(crate) struct Kept {
    taps: BTreeMap<RingSpec, &'static Tap>,
    /// Callbacks of receive queues that were removed, which a thread may still be in.
    removed: Vec<(RingSpec, Callback)>,
    sessions: u64,
}

// SAFETY: callbacks are addresses of DPDK's memory, which is all threads'.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Send for Session {}

impl Session {
    /// Begins to capture; after an error nothing is left of it.
    pub(crate) fn start(dpdk: &Dpdk, kept: &mut Kept, owner: Owner, fd: u32) -> Result<Session, String> {
        let segment = Segment::open(owner.open(fd)?).map_err(|fault| fault.to_string())?;
        let plan = segment.plan();
        kept.sessions += 1;
        let ids = plan.has_ids.then(|| Ids::register(dpdk, kept.sessions)).transpose()?;
        let keeps = filter::load(&plan.program)?;
        let mut session = Session { owner, armed: Vec::new() };
        for (index, spec) in plan.rings.iter().enumerate() {
            let (writer, keeps) = (segment.writer(index), keeps.clone());
            let active = Active::new(writer, keeps, *spec, ids, index, plan.snaplen);
            match arm(dpdk, kept.tap(*spec), active) {
                Ok(armed) => session.armed.push(armed),
                Err(error) => {
                    session.stop(dpdk, kept);
                    return Err(error);
                }
            }
        }
        Ok(session)
    }

    /// Queues that are captured, each direction by itself.
    pub(crate) fn rings(&self) -> usize {
        self.armed.len()
    }

    /// Ends it. How many queues a thread has not come out of: their memory stays mapped.
    pub(crate) fn stop(self, dpdk: &Dpdk, kept: &mut Kept) -> usize {
        for Armed { tap, callback } in &self.armed {
            // SAFETY: the callback was added to this queue and is removed once.
            unsafe {
                match tap.spec.direction {
                    Direction::Rx => {
                        (dpdk.rte_eth_remove_rx_callback)(tap.spec.port, tap.spec.queue, *callback)
                    }
                    Direction::Tx => {
                        (dpdk.rte_eth_remove_tx_callback)(tap.spec.port, tap.spec.queue, *callback)
                    }
                };
            }
        }
        let mut stuck = 0;
        for Armed { tap, callback } in self.armed {
            match tap.take() {
                Some(active) => kept.removed(dpdk, tap.spec, callback, active.writer.counters().received > 0),
                None => {
                    // A thread is in there, and may come out at any time: neither the tap nor the callback is used again.
                    kept.taps.remove(&tap.spec);
                    stuck += 1;
                }
            }
        }
        stuck
    }
}

impl Kept {
    pub(crate) const fn new() -> Kept {
        Kept { taps: BTreeMap::new(), removed: Vec::new(), sessions: 0 }
    }

    fn tap(&mut self, spec: RingSpec) -> &'static Tap {
        self.taps.entry(spec).or_insert_with(|| Tap::leak(spec))
    }

    /// A callback was removed. DPDK leaves its memory to the one that added it, and does not say when no thread reads it any more. Only one
    /// thread receives on a queue, so once it has come through a callback that was added later, it is out of those before: they are
    /// freed. Of queues that send nothing is known, and these stay, 32 bytes each.
    fn removed(&mut self, dpdk: &Dpdk, spec: RingSpec, callback: Callback, has_run: bool) {
        if spec.direction == Direction::Tx {
            return;
        }
        if has_run {
            for (_, earlier) in self.removed.extract_if(.., |(of, _)| *of == spec) {
                // SAFETY: DPDK has allocated it with its own allocator, for its owner to free; no thread reads it, as said above.
                unsafe { (dpdk.rte_free)(earlier.cast_mut()) };
            }
        }
        self.removed.push((spec, callback));
    }
}

fn arm(dpdk: &Dpdk, tap: &'static Tap, active: Active) -> Result<Armed, String> {
    let RingSpec { port, queue, direction } = tap.spec;
    tap.put(Box::new(active));
    let argument = ptr::from_ref(tap).cast_mut().cast::<c_void>();
    // SAFETY: the functions are those that DPDK's types ask for, and the tap lives for ever. DPDK refuses ports and queues that it
    // does not have.
    let callback = unsafe {
        match direction {
            Direction::Rx => (dpdk.rte_eth_add_first_rx_callback)(port, queue, on_rx, argument),
            Direction::Tx => (dpdk.rte_eth_add_tx_callback)(port, queue, on_tx, argument),
        }
    };
    if callback.is_null() {
        tap.take();
        return Err(format!(
            "DPDK takes no callback for {direction} queue {queue} of port {port}: is there such a queue?"
        ));
    }
    Ok(Armed { tap, callback })
}
