package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
)

var result uint64

func main() {
	size, _ := strconv.Atoi(os.Args[1])
	message := bytes.Repeat([]byte("a"), size)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		n, _ := strconv.ParseUint(lines.Text(), 10, 64)
		for i := uint64(0); i < n; i++ {
			hash := uint64(0xcbf29ce484222325)
			for _, c := range message {
				hash = (hash ^ uint64(c)) * 0x100000001b3
			}
			result = hash
		}
		fmt.Println(n)
	}
}
