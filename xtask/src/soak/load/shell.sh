fib() { if (($1 < 2)); then echo $1; else echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); fi; }
declare -A ages=([ada]=36 [alan]=41 [grace]=85)
for name in $(printf '%s\n' "${!ages[@]}" | sort); do printf '%-8s %03d\n' "$name" "${ages[$name]}"; done
numbers=(); for ((i = 0; i < 500; i++)); do numbers+=($((i * 7919 % 1000))); done
printf '%s\n' "${numbers[@]}" | sort -n | uniq -c | tail -3
text="the quick brown fox"; echo "${text^^} ${text//o/0} ${#text} ${text:4:5} ${text%% *}"
[[ $text =~ (q[a-z]+).*(f.x) ]] && echo "${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
while read -r word rest; do echo "$word|$rest"; done <<< "$text"
trap 'echo trapped' USR1; kill -USR1 $$
select_case() { case $1 in a*) echo starts ;; *z) echo ends ;; *) echo other ;; esac; }
for word in apple fizz none; do select_case $word; done
(exit 3); echo "status $?"; (cd / && pwd); echo $((2 ** 40 + 0x1f)) $(printf '%x' 255)
wait; echo "$(fib 8)"; type -t fib; echo {a..e}{1..3}; unset numbers; exit 0
