; LRU maps: which keys stay is the runtime's and the same for both engines; a value's address outlives its key.

map @lru lru_hash key 8 value 8 entries 4
map @large lru_hash key 8 value 24 entries 2
map @lanes lru_percpu_hash key 8 value 8 entries 4

; Twenty keys pass through four places; key 0, looked up in between, stays.
program "used_key_stays" probe
; r0 = 0x2a
r6 = 0
*(u64 *)(r10 - 16) = 42
next:
*(u64 *)(r10 - 8) = r6
r1 = map[@lru] ll
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 0
call map_update_elem
*(u64 *)(r10 - 16) = 7
*(u64 *)(r10 - 8) = 0
r1 = map[@lru] ll
r2 = r10
r2 += -8
call map_lookup_elem
r6 += 1
if r6 != 20 goto next
if r0 == 0 goto out
r0 = *(u64 *)(r0 + 0)
out: exit

; A full map takes a new key: the status is 0, not E2BIG; BPF_NOEXIST and BPF_EXIST keep their meaning.
program "full_map_takes_a_key" probe
; r0 = 0xffffffffffffffed
*(u64 *)(r10 - 16) = 1
r6 = 0
r7 = 0
next:
*(u64 *)(r10 - 8) = r6
r1 = map[@lru] ll
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 1
call map_update_elem
r7 += r0
r6 += 1
if r6 != 9 goto next
r1 = map[@lru] ll
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 1
call map_update_elem
r7 += r0
*(u64 *)(r10 - 8) = 100
r1 = map[@lru] ll
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 2
call map_update_elem
r7 += r0
r0 = r7
exit

; The address of a value is kept while its key goes: reads and writes stay inside the map.
program "held_value" probe
; r0 = 5
*(u64 *)(r10 - 32) = 1
*(u64 *)(r10 - 24) = 2
*(u64 *)(r10 - 16) = 3
*(u64 *)(r10 - 8) = 1
r1 = map[@large] ll
r2 = r10
r2 += -8
r3 = r10
r3 += -32
r4 = 0
call map_update_elem
r1 = map[@large] ll
r2 = r10
r2 += -8
call map_lookup_elem
if r0 == 0 goto absent
r6 = r0
r7 = 10
next:
*(u64 *)(r10 - 8) = r7
r1 = map[@large] ll
r2 = r10
r2 += -8
r3 = r10
r3 += -32
r4 = 0
call map_update_elem
r7 += 1
if r7 != 20 goto next
r1 = *(u64 *)(r6 + 16)
*(u64 *)(r6 + 8) = r1
r0 = *(u64 *)(r6 + 8)
r0 += 2
exit
absent: r0 = 0
exit

; Counts in lanes, with more keys than fit.
program "lanes_count" probe
; r0 = 0
*(u64 *)(r10 - 16) = 0
r6 = 0
next:
*(u64 *)(r10 - 8) = r6
r1 = map[@lanes] ll
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 0
call map_update_elem
r1 = map[@lanes] ll
r2 = r10
r2 += -8
call map_lookup_elem
if r0 == 0 goto gone
r1 = 1
lock *(u64 *)(r0 + 0) += r1
r6 += 1
if r6 != 10 goto next
*(u64 *)(r10 - 8) = 1000
r1 = map[@lanes] ll
r2 = r10
r2 += -8
call map_lookup_elem
if r0 == 0 goto out
gone: r0 = 1
exit
out: r0 = 0
exit
