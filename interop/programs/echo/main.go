// An echo server as programs of Go have it: a loop that accepts, and a goroutine for each association. An error of
// accept that may pass, as the standard library has them, is tried again.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

const sctp = 132

func serve(fd int) {
	defer syscall.Close(fd)
	buffer := make([]byte, 4096)
	for {
		n, err := syscall.Read(fd, buffer)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			fmt.Println("association ended:", err)
			return
		}
		if _, err = syscall.Write(fd, buffer[:n]); err != nil {
			fmt.Println("association ended:", err)
			return
		}
	}
}

func fail(what string, err error) {
	fmt.Println(what+":", err)
	os.Exit(1)
}

func main() {
	port, _ := strconv.Atoi(os.Args[1])
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, sctp)
	if err != nil {
		fail("socket", err)
	}
	address := &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if err = syscall.Bind(fd, address); err != nil {
		fail("bind", err)
	}
	if err = syscall.Listen(fd, 16); err != nil {
		fail("listen", err)
	}
	fmt.Println("listening")
	for {
		accepted, _, err := syscall.Accept(fd)
		switch err {
		case nil:
			go serve(accepted)
		case syscall.EINTR, syscall.ECONNABORTED, syscall.EMFILE:
			time.Sleep(5 * time.Millisecond)
		default:
			fail("accept", err)
		}
	}
}
