//! The functions of a program: where each begins, and who calls whom.
//!
//! In: decoded instructions. A function begins at slot 0, at every target of a local call and at every address that is
//! taken of one, and ends where the next begins. Checked here, as Linux does before it follows any path:
//! - a function ends in an exit or an unconditional jump, and no jump leaves it;
//! - nothing is recursive, and calls nest at most [`CALL_DEPTH_MAX`] deep;
//! - after exploring: the same for callbacks ([`Functions::with_callbacks`]), and the frames of nested calls take at
//!   most [`STACK_BYTES`] together ([`Functions::check_stack`]).

use crate::decode::{At, Op};
use crate::limits::{CALL_DEPTH_MAX, FRAME_BYTES_UNIT, STACK_BYTES};
use crate::rejection::{Refusal, refuse};

#[derive(Clone, Debug)]
pub(crate) struct Functions {
    /// First slots, ascending. The first is 0: the program itself.
    starts: Vec<usize>,
    /// By function: the functions it calls, by slot of the call.
    calls: Vec<Vec<(usize, usize)>>,
    /// Every function before those that call it.
    callees_first: Vec<usize>,
}

impl Functions {
    pub(crate) fn of(ops: &[Op]) -> At<Functions> {
        let mut starts: Vec<usize> = ops.iter().filter_map(begun).chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        let calls = vec![Vec::new(); starts.len()];
        let mut functions = Functions { starts, calls, callees_first: Vec::new() };
        functions.check_bounds(ops)?;
        for (slot, op) in ops.iter().enumerate() {
            if let Some(target) = callee(op) {
                let (caller, callee) = (functions.at(slot), functions.at(target));
                functions.calls[caller].push((slot, callee));
            }
        }
        functions.check_nesting()?;
        Ok(functions)
    }

    /// With the callbacks of helpers as calls: slot of the helper's call, slot of the callback.
    pub(crate) fn with_callbacks(&self, callbacks: impl Iterator<Item = (usize, usize)>) -> At<Functions> {
        let mut functions = self.clone();
        for (slot, target) in callbacks {
            let (caller, callee) = (functions.at(slot), functions.at(target));
            functions.calls[caller].push((slot, callee));
        }
        functions.callees_first.clear();
        functions.check_nesting()?;
        Ok(functions)
    }

    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    /// First slots, ascending.
    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The slots of a function of a program of so many.
    pub(crate) fn slots(&self, function: usize, count: usize) -> std::ops::Range<usize> {
        self.starts[function]..self.starts.get(function + 1).copied().unwrap_or(count)
    }

    /// Every function, before those that call it.
    pub(crate) fn callees_first(&self) -> &[usize] {
        &self.callees_first
    }

    /// The function that `slot` lies in.
    pub(crate) fn at(&self, slot: usize) -> usize {
        self.starts.partition_point(|start| *start <= slot) - 1
    }

    /// Nested frames fit together: how much those of the program take. `deepest`: bytes that each function's frame uses.
    pub(crate) fn check_stack(&self, deepest: &[i64]) -> At<u32> {
        let mut with_callees = vec![0i64; self.count()];
        for &function in &self.callees_first {
            let frame = (deepest[function] as u64).next_multiple_of(FRAME_BYTES_UNIT) as i64;
            with_callees[function] = frame;
            for &(slot, callee) in &self.calls[function] {
                let together = frame + with_callees[callee];
                if together > STACK_BYTES {
                    return refuse(format!(
                        "the frames from here on take {together} bytes together ({frame} of them this function's); \
                         the limit is {STACK_BYTES}"
                    ))
                    .map_err(|refusal| (Some(slot), refusal));
                }
                with_callees[function] = with_callees[function].max(together);
            }
        }
        Ok(with_callees[0] as u32)
    }

    fn check_bounds(&self, ops: &[Op]) -> At<()> {
        for (slot, op) in ops.iter().enumerate() {
            if let Op::Jump { target } | Op::Branch { target, .. } | Op::MayGoto { target } = op
                && self.at(slot) != self.at(*target)
            {
                return refuse(format!("jumps to {target}, into another function"))
                    .map_err(|refusal| (Some(slot), refusal));
            }
        }
        for &start in &self.starts[1..] {
            // No function begins at a second slot, so what stands before one may be such a slot itself.
            if !matches!(ops[start - 1], Op::Exit | Op::Jump { .. }) {
                let at = start - 1 - usize::from(matches!(ops[start - 1], Op::Second));
                return refuse("the function ends here without `exit` or `goto`")
                    .map_err(|refusal: Refusal| (Some(at), refusal));
            }
        }
        Ok(())
    }

    /// Depth first over the call graph: a call back into a function under way is a recursion.
    fn check_nesting(&mut self) -> At<()> {
        let mut height = vec![None; self.count()];
        for function in 0..self.count() {
            // What nobody calls is checked as well; it is never run.
            let mut path = vec![(function, 0)];
            while let Some(&mut (function, ref mut next)) = path.last_mut() {
                if height[function].is_some() {
                    path.pop();
                    continue;
                }
                let Some(&(slot, callee)) = self.calls[function].get(*next) else {
                    let below = self.calls[function].iter().filter_map(|call| height[call.1]).max();
                    height[function] = Some(1 + below.unwrap_or(0));
                    self.callees_first.push(function);
                    path.pop();
                    continue;
                };
                *next += 1;
                let blame = |message: String| refuse(message).map_err(|refusal| (Some(slot), refusal));
                if path.iter().any(|(caller, _)| *caller == callee) {
                    return blame("the call is recursive: its function is under way here".into());
                }
                // The callee, its callers on this path and what is known of its own calls.
                let deep = path.len() + height[callee].unwrap_or(1);
                if deep > CALL_DEPTH_MAX {
                    return blame(format!("calls nest {deep} deep from here; the limit is {CALL_DEPTH_MAX}"));
                }
                path.push((callee, 0));
            }
        }
        Ok(())
    }
}

fn callee(op: &Op) -> Option<usize> {
    if let Op::CallLocal { target } = *op { Some(target) } else { None }
}

/// Where the function begins that an instruction calls, or takes the address of.
fn begun(op: &Op) -> Option<usize> {
    if let Op::CallLocal { target } | Op::Function { target, .. } = *op { Some(target) } else { None }
}
