//! The commands of the telemetry socket: words in, words out. One at a time, whatever thread they come by.
//!
//! | command | does | answers |
//! |---|---|---|
//! | `/weir/info` | nothing | `weir VERSION, DPDK VERSION: ` and what is going on |
//! | `/weir/start,PID,FD` | captures into the segment that process PID has open as FD | `ok: …` |
//! | `/weir/stop` | ends that | `ok: …` |
//!
//! What goes wrong is answered with `error: …`, and leaves everything as it was.
//!
//! A capture whose process is gone is ended by an alarm of EAL's, whose thread is there anyway; no other alarm is set.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::dpdk::{Dpdk, Telemetry};
use crate::limits::OWNER_LOOK_US;
use crate::mbuf;
use crate::owner::Owner;
use crate::session::{Kept, Session};

static STATE: Mutex<State> = Mutex::new(State::new());

struct State {
    dpdk: Option<Dpdk>,
    session: Option<Session>,
    kept: Kept,
    has_alarm: bool,
    /// How the last capture ended, if nobody asked for it.
    ended: Option<String>,
}

impl State {
    const fn new() -> State {
        State { dpdk: None, session: None, kept: Kept::new(), has_alarm: false, ended: None }
    }

    /// What capturing needs of DPDK, looked up and tried at the first time.
    fn dpdk(&mut self, telemetry: &Telemetry) -> Result<Dpdk, String> {
        if let Some(dpdk) = self.dpdk {
            return Ok(dpdk);
        }
        let dpdk = Dpdk::find()?;
        mbuf::check(&dpdk, &telemetry.version())?;
        self.dpdk = Some(dpdk);
        Ok(dpdk)
    }

    fn end(&mut self, dpdk: &Dpdk) -> Option<(u32, String)> {
        let session = self.session.take()?;
        let (pid, rings) = (session.owner.pid, session.rings());
        let stuck = session.stop(dpdk, &mut self.kept);
        let words = match stuck {
            0 => format!("{rings} queues are free again"),
            _ => format!(
                "{rings} queues are free again; threads are still in bursts of {stuck} of them, whose memory stays mapped"
            ),
        };
        Some((pid, words))
    }

    fn end_if_owner_is_gone(&mut self, dpdk: &Dpdk) {
        if self.session.as_ref().is_some_and(|session| session.owner.is_gone())
            && let Some((pid, words)) = self.end(dpdk)
        {
            self.ended = Some(format!("process {pid}, which captured, is gone: {words}"));
        }
    }
}

/// `/weir/info`.
pub(crate) fn info(telemetry: &Telemetry) -> String {
    let mut state = state();
    let usable = state.dpdk(telemetry);
    if let Ok(dpdk) = &usable {
        state.end_if_owner_is_gone(dpdk);
    }
    let what = match (&usable, &state.session, &state.ended) {
        (Err(error), _, _) => format!("cannot capture: {error}"),
        (_, Some(session), _) => format!("process {} captures {} queues", session.owner.pid, session.rings()),
        (_, None, Some(ended)) => format!("idle; {ended}"),
        (_, None, None) => "idle".to_owned(),
    };
    format!("weir {}, {}: {what}", env!("CARGO_PKG_VERSION"), telemetry.version())
}

/// `/weir/start`.
pub(crate) fn start(telemetry: &Telemetry, parameters: &str) -> Result<String, String> {
    let words: Vec<&str> = parameters.split(',').collect();
    let numbers: Vec<u32> = words.iter().filter_map(|word| word.trim().parse().ok()).collect();
    let &[pid, fd] = numbers.as_slice() else {
        return Err(format!(
            "{parameters:?}: a process and a descriptor of its are needed, as in /weir/start,1234,5"
        ));
    };
    let mut state = state();
    let dpdk = state.dpdk(telemetry)?;
    state.end_if_owner_is_gone(&dpdk);
    if let Some(session) = &state.session {
        return Err(format!("process {} captures already: one can at a time", session.owner.pid));
    }
    let session = Session::start(&dpdk, &mut state.kept, Owner::of(pid)?, fd)?;
    let rings = session.rings();
    (state.session, state.ended) = (Some(session), None);
    if !state.has_alarm && !set_alarm(&dpdk) {
        state.end(&dpdk);
        return Err(
            "EAL takes no alarm (rte_eal_alarm_set), by which it is noticed that weir is gone".to_owned()
        );
    }
    state.has_alarm = true;
    Ok(format!("{rings} queues are captured"))
}

/// `/weir/stop`.
pub(crate) fn stop(telemetry: &Telemetry) -> Result<String, String> {
    let mut state = state();
    let dpdk = state.dpdk(telemetry)?;
    match state.end(&dpdk) {
        Some((_, words)) => Ok(words),
        None => Err("nothing is captured".to_owned()),
    }
}

fn set_alarm(dpdk: &Dpdk) -> bool {
    // SAFETY: the function is what EAL's type asks for, and looks at no argument.
    unsafe { (dpdk.rte_eal_alarm_set)(OWNER_LOOK_US, on_alarm, ptr::null_mut()) == 0 }
}

/// `rte_eal_alarm_callback`, in EAL's thread.
unsafe extern "C" fn on_alarm(_: *mut c_void) {
    // What is amiss here must not unwind into EAL; nothing is left to be done about it.
    let _ = std::panic::catch_unwind(|| {
        let mut state = state();
        let Some(dpdk) = state.dpdk else { return };
        state.end_if_owner_is_gone(&dpdk);
        state.has_alarm = state.session.is_some() && set_alarm(&dpdk);
    });
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
