// A core network function and a base station that exchange NGAP messages, written as users of the module write them: the server
// reads with a timeout and notifications, and answers with the PPID of its default parameters.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/free5gc/sctp"
)

// ngap is PPID 60 in network byte order, as a little-endian machine writes it.
const ngap uint32 = 0x3c000000

var config = sctp.SocketConfig{
	InitMsg:   sctp.InitMsg{NumOstreams: 3, MaxInstreams: 5, MaxAttempts: 2, MaxInitTimeout: 2},
	RtoInfo:   &sctp.RtoInfo{SrtoInitial: 500, SrtoMax: 1500, StroMin: 100},
	AssocInfo: &sctp.AssocInfo{AsocMaxRxt: 4},
}

func addresses(port int) *sctp.SCTPAddr {
	return &sctp.SCTPAddr{IPAddrs: []net.IPAddr{{IP: net.IPv4(127, 0, 0, 1)}, {IP: net.IPv6loopback}}, Port: port}
}

func main() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	listener, err := config.Listen("sctp", addresses(0))
	if err != nil {
		log.Fatal("listen: ", err)
	}
	port := listener.Addr().(*sctp.SCTPAddr).Port
	var connections sync.WaitGroup
	for station := 1; station <= 3; station++ {
		connections.Add(2)
		go func(station int) {
			defer connections.Done()
			connect(station, port)
		}(station)
		accepted, err := listener.AcceptSCTP(10000)
		if err != nil || accepted == nil {
			log.Fatal("accept: ", err)
		}
		go func() {
			defer connections.Done()
			serve(accepted)
		}()
	}
	connections.Wait()
	if err := listener.Close(); err != nil {
		log.Fatal("close: ", err)
	}
}

func serve(conn *sctp.SCTPConn) {
	defer conn.Close()
	info, err := conn.GetDefaultSentParam()
	if err != nil {
		log.Fatal("default parameters: ", err)
	}
	info.PPID = ngap
	if err := conn.SetDefaultSentParam(info); err != nil {
		log.Fatal("default parameters: ", err)
	}
	if err := conn.SubscribeEvents(sctp.SCTP_EVENT_DATA_IO | sctp.SCTP_EVENT_SHUTDOWN | sctp.SCTP_EVENT_ASSOCIATION); err != nil {
		log.Fatal("events: ", err)
	}
	if err := conn.SetReadBuffer(1 << 18); err != nil {
		log.Fatal("buffer: ", err)
	}
	if err := conn.SetReadTimeout(syscall.Timeval{Usec: 50000}); err != nil {
		log.Fatal("timeout: ", err)
	}
	buffer := make([]byte, 1<<18)
	for {
		n, info, notification, err := conn.SCTPRead(buffer)
		switch err {
		case nil:
		case syscall.EAGAIN, syscall.EINTR:
			continue
		case io.EOF, io.ErrUnexpectedEOF:
			log.Print("server: the station has disconnected")
			return
		default:
			log.Fatal("server: ", err)
		}
		if notification != nil {
			if notification.Type() == sctp.SCTP_SHUTDOWN_EVENT {
				log.Print("server: shutdown")
			}
			continue
		}
		if info == nil || info.PPID != ngap {
			log.Print("server: a message of another protocol")
			continue
		}
		if _, err := conn.Write(append([]byte("answer to "), buffer[:n]...)); err != nil {
			log.Fatal("server: ", err)
		}
	}
}

func connect(station, port int) {
	conn, err := sctp.DialSCTP("sctp", addresses(0), addresses(port))
	if err != nil {
		log.Fatal("dial: ", err)
	}
	if err := conn.SubscribeEvents(sctp.SCTP_EVENT_DATA_IO); err != nil {
		log.Fatal("events: ", err)
	}
	local, remote := conn.LocalAddr().(*sctp.SCTPAddr), conn.RemoteAddr().(*sctp.SCTPAddr)
	log.Printf("station %d: %d and %d addresses", station, len(local.IPAddrs), len(remote.IPAddrs))
	buffer := make([]byte, 1<<18)
	for message := 0; message < 20; message++ {
		text := fmt.Sprintf("message %d of %d", message, station)
		if message == 10 {
			if _, err := conn.SCTPWrite([]byte("another protocol"), &sctp.SndRcvInfo{PPID: 1}); err != nil {
				log.Fatal("station: ", err)
			}
		}
		if _, err := conn.SCTPWrite([]byte(text), &sctp.SndRcvInfo{Stream: uint16(message % 3), PPID: ngap}); err != nil {
			log.Fatal("station: ", err)
		}
		n, info, _, err := conn.SCTPRead(buffer)
		if err != nil || string(buffer[:n]) != "answer to "+text || info == nil || info.PPID != ngap {
			log.Fatalf("station: %q, %+v, %v", buffer[:n], info, err)
		}
	}
	log.Printf("station %d: 20 answers", station)
	if err := conn.Close(); err != nil {
		log.Fatal("station: ", err)
	}
}
