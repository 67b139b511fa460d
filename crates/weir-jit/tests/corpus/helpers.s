; Helpers whose answer is known, registers across calls, the cookie.

map @ring ringbuf key 0 value 0 entries 4096

program "saved registers survive a call" probe
; context di = 1 si = 2 dx = 3 cx = 4
; r0 = 10
r6 = *(u64 *)(r1 + 112)
r7 = *(u64 *)(r1 + 104)
r8 = *(u64 *)(r1 + 96)
r9 = *(u64 *)(r1 + 88)
call ktime_get_ns
r0 = r6
r0 += r7
r0 += r8
r0 += r9
exit

program "stack survives a call" probe
; context di = 1
; r0 = 1
r6 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 8) = r6
*(u64 *)(r10 - 200) = r6
call get_smp_processor_id
r0 = *(u64 *)(r10 - 8)
r2 = *(u64 *)(r10 - 200)
r0 *= r2
exit

program "the context survives a call" probe
; context di = 1 si = 3
; r0 = 3
r6 = r1
call ktime_get_ns
r0 = *(u64 *)(r6 + 104)
exit

program "cookie" probe
; context cookie = 0x123456789a
; r0 = 0x123456789b
call get_attach_cookie
r0 += 1
exit

program "pid is the upper half and the same every time" probe
; r0 = 0
call get_current_pid_tgid
r6 = r0
r6 >>= 32
call get_current_pid_tgid
r7 = r0
r7 >>= 32
r0 = r6
r0 -= r7
exit

program "time does not go back" probe
; r0 = 1
call ktime_get_ns
r6 = r0
call ktime_get_ns
r1 = r0
r0 = 1
if r1 >= r6 goto out
r0 = 0
out:
exit

program "bytes read from nowhere are an error" probe
; context di = 16
; r0 = 1
r3 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 8) = 0
r1 = r10
r1 += -8
r2 = 8
call probe_read_user
r1 = r0
r0 = 1
if r1 s< 0 goto out
r0 = 0
out:
exit

program "a record is reserved and submitted" probe
; context di = 16
; r0 = 17
r6 = *(u64 *)(r1 + 112)
r1 = map[@ring] ll
r2 = 16
r3 = 0
call ringbuf_reserve
if r0 == 0 goto out
*(u64 *)(r0 + 0) = r6
*(u64 *)(r0 + 8) = r6
r6 += 1
r1 = r0
r2 = 0
call ringbuf_submit
r0 = r6
out:
exit

program "a record is written from the stack" probe
; context di = 16
; r0 = 0
r6 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 16) = r6
*(u64 *)(r10 - 8) = r6
r1 = map[@ring] ll
r2 = r10
r2 += -16
r3 = 16
r4 = 0
call ringbuf_output
exit
