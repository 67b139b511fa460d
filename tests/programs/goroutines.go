// A Go program that makes probing hard: more goroutines than threads, all busy, preempted at every moment; a collector
// that never rests; stacks that grow.
//
// goroutines: prints `ready`; for each line with a number calls Told so often, on a new goroutine each hundred times, each of
// which needs a larger stack than it begins with, and prints `calls=TOTAL`. At the end of its input it prints `done`,
// or what went wrong, and ends with exit code 7. A line `hold ADDRESS` starts a goroutine that waits with that address on its
// stack, as one does which was preempted there, and prints `holding`; `free` lets it go, and prints `freed`.
// goroutines calm: the same lines, and nothing runs beside them.
// goroutines NUMBER: the same for that number at once, without the others.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

var wrong, sink int64

//go:noinline
func leaf(x int64) int64 { return x*3 + 1 }

// Told is called so often as the program was told.
//
//go:noinline
func Told(x int64) int64 { return leaf(x) + 1 }

// Spin is called all the time. Almost all of it is what a probe displaces.
//
//go:noinline
func Spin(x int64) int64 { return leaf(x) }

//go:noinline
func deep(n int64) int64 {
	if n == 0 {
		return 0
	}
	return deep(n-1) + Told(n) - leaf(n)
}

func spin() {
	for x := int64(0); ; x++ {
		if Spin(x) != x*3+1 {
			atomic.AddInt64(&wrong, 1)
		}
	}
}

func collect() {
	for {
		pieces := make([][]byte, 100)
		for i := range pieces {
			pieces[i] = make([]byte, 1000)
		}
		atomic.AddInt64(&sink, int64(len(pieces[7])))
		runtime.GC()
	}
}

//go:noinline
func sum(words *[4]uintptr) uintptr { return words[0] + words[1] + words[2] + words[3] }

// Nobody but this goroutine has the address as a number.
func hold(text string, holding, free chan bool) {
	number, _ := strconv.ParseUint(text, 0, 64)
	address := uintptr(number)
	words := [4]uintptr{0, address, 0, 0}
	holding <- true
	<-free
	if sum(&words) != address {
		atomic.AddInt64(&wrong, 1)
	}
	holding <- false
}

func told(count int64) {
	done := make(chan bool)
	for count > 0 {
		part := count
		if part > 100 {
			part = 100
		}
		count -= part
		go func() {
			if deep(part) != part {
				atomic.AddInt64(&wrong, 1)
			}
			done <- true
		}()
		<-done
	}
}

func main() {
	calm := len(os.Args) > 1 && os.Args[1] == "calm"
	if len(os.Args) > 1 && !calm {
		count, _ := strconv.ParseInt(os.Args[1], 10, 64)
		told(count)
		fmt.Printf("calls=%d\n", count)
		os.Exit(7)
	}
	runtime.GOMAXPROCS(4)
	for i := 0; i < 48 && !calm; i++ {
		go spin()
	}
	if !calm {
		go collect()
	}
	fmt.Println("ready")
	total, input := int64(0), bufio.NewScanner(os.Stdin)
	holding, free := make(chan bool), make(chan bool)
	for input.Scan() {
		if words := strings.Fields(input.Text()); words[0] == "hold" {
			go hold(words[1], holding, free)
			<-holding
			fmt.Println("holding")
			continue
		} else if words[0] == "free" {
			free <- true
			<-holding
			fmt.Println("freed")
			continue
		}
		count, _ := strconv.ParseInt(strings.TrimSpace(input.Text()), 10, 64)
		told(count)
		total += count
		fmt.Printf("calls=%d\n", total)
	}
	if wrong := atomic.LoadInt64(&wrong); wrong != 0 {
		fmt.Printf("wrong=%d\n", wrong)
		os.Exit(8)
	}
	fmt.Println("done")
	os.Exit(7)
}
