// Two Diameter peers, written as users of the module write them: connections as net.Conn with deadlines, messages that begin with
// their length, and a watchdog when nothing has arrived for some time.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"github.com/ishidawataru/sctp"
)

// diameter is PPID 46 in network byte order, as a little-endian machine writes it.
const diameter uint32 = 0x2e000000

func main() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	own, err := sctp.ResolveSCTPAddr("sctp", "127.0.0.1/[::1]:0")
	if err != nil {
		log.Fatal("address: ", err)
	}
	listener, err := sctp.ListenSCTPExt("sctp", own, sctp.InitMsg{NumOstreams: 4, MaxInstreams: 4})
	if err != nil {
		log.Fatal("listen: ", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- accept(listener) }()

	peer := listener.Addr().(*sctp.SCTPAddr)
	conn, err := sctp.DialSCTPExt("sctp", nil, peer, sctp.InitMsg{NumOstreams: 4, MaxInstreams: 4})
	if err != nil {
		log.Fatal("dial: ", err)
	}
	log.Printf("%d addresses of the peer", len(conn.RemoteAddr().(*sctp.SCTPAddr).IPAddrs))
	if err := conn.SetDefaultSentParam(&sctp.SndRcvInfo{PPID: diameter}); err != nil {
		log.Fatal("default parameters: ", err)
	}
	if err := run(conn); err != nil {
		log.Fatal("client: ", err)
	}
	if err := conn.Close(); err != nil {
		log.Fatal("close: ", err)
	}
	if err := <-ended; err != nil {
		log.Fatal("server: ", err)
	}
	// Close ends an Accept that waits.
	go func() { ended <- accept(listener) }()
	time.Sleep(50 * time.Millisecond)
	listener.Close()
	log.Print("accept after close: an error ", <-ended != nil)
}

// run sends requests, then nothing until the server's watchdog asks.
func run(conn net.Conn) error {
	for request := 0; request < 20; request++ {
		// Messages of different sizes, up to several packets.
		text := fmt.Sprintf("request %d %s", request, strings.Repeat("x", request*500))
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		if err := send(conn, text); err != nil {
			return err
		}
		if answer, err := receive(conn); err != nil || answer != "answer to "+text {
			return fmt.Errorf("%q, %w", answer, err)
		}
	}
	log.Print("20 answers")
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	question, err := receive(conn)
	if err != nil || question != "watchdog" {
		return fmt.Errorf("%q, %w", question, err)
	}
	log.Print("a watchdog")
	return send(conn, "alive")
}

func accept(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.(*sctp.SCTPConn).SubscribeEvents(sctp.SCTP_EVENT_DATA_IO); err != nil {
		return err
	}
	waits := false
	for {
		conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		text, err := receive(conn)
		var timeout net.Error
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &timeout) && timeout.Timeout() && !waits:
			waits = true
			err = send(conn, "watchdog")
		case err == nil && text == "alive":
			log.Print("the peer is alive")
		case err == nil:
			err = send(conn, "answer to "+text)
		}
		if err != nil {
			return err
		}
	}
}

func send(conn net.Conn, text string) error {
	message := binary.BigEndian.AppendUint32(nil, uint32(len(text)+4))
	_, err := conn.Write(append(message, text...))
	return err
}

// receive reads a message, of which each Read may return a part.
func receive(conn net.Conn) (string, error) {
	message := make([]byte, 1<<16)
	n, err := conn.Read(message)
	if err != nil {
		return "", err
	}
	for n < 4 || n < int(binary.BigEndian.Uint32(message)) {
		more, err := conn.Read(message[n:])
		if err != nil {
			return "", err
		}
		n += more
	}
	return string(message[4:n]), nil
}
