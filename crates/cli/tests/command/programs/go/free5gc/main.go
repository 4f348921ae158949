// Command echo is a server and its clients, on github.com/free5gc/sctp as it is published.
//
// Usage: echo server | echo client PORT
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"

	"github.com/free5gc/sctp"
)

const (
	clients  = 8
	messages = 200
)

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func address(port int) *sctp.SCTPAddr {
	return &sctp.SCTPAddr{IPAddrs: []net.IPAddr{{IP: net.IPv4(127, 0, 0, 1)}}, Port: port}
}

// disturb makes the runtime signal its threads.
func disturb() {
	go func() {
		for {
			runtime.GC()
		}
	}()
}

func serve() {
	listener, err := sctp.ListenSCTP("sctp4", address(0))
	check(err)
	fmt.Printf("{\"port\": %d}\n", listener.Addr().(*sctp.SCTPAddr).Port)
	var all sync.WaitGroup
	for n := 0; n < clients; n++ {
		conn, err := listener.AcceptSCTP(1000)
		check(err)
		check(conn.SubscribeEvents(sctp.SCTP_EVENT_DATA_IO))
		all.Add(1)
		go func() {
			defer all.Done()
			buffer := make([]byte, 1<<16)
			for {
				size, info, _, err := conn.SCTPRead(buffer)
				if err == io.EOF {
					check(conn.Close())
					return
				}
				check(err)
				_, err = conn.SCTPWrite(buffer[:size], &sctp.SndRcvInfo{Stream: info.Stream, PPID: info.PPID + 1})
				check(err)
			}
		}()
	}
	all.Wait()
}

func call(client int, port int) {
	conn, err := sctp.DialSCTP("sctp4", nil, address(port))
	check(err)
	check(conn.SubscribeEvents(sctp.SCTP_EVENT_DATA_IO))
	buffer := make([]byte, 1<<16)
	for n := 0; n < messages; n++ {
		message := make([]byte, 4+n*37%3000)
		binary.BigEndian.PutUint32(message, uint32(client*messages+n))
		to := &sctp.SndRcvInfo{Stream: uint16(client), PPID: uint32(n)}
		_, err := conn.SCTPWrite(message, to)
		check(err)
		size, from, _, err := conn.SCTPRead(buffer)
		check(err)
		if string(buffer[:size]) != string(message) || from.Stream != uint16(client) || from.PPID != uint32(n+1) {
			log.Fatalf("client %d, message %d: %d bytes, %+v", client, n, size, from)
		}
	}
	check(conn.Close())
}

func main() {
	disturb()
	if os.Args[1] == "server" {
		serve()
		return
	}
	port, err := strconv.Atoi(os.Args[2])
	check(err)
	var all sync.WaitGroup
	for client := 0; client < clients; client++ {
		all.Add(1)
		go func() {
			defer all.Done()
			call(client, port)
		}()
	}
	all.Wait()
}
