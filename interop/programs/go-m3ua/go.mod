module carrick/interop/go-m3ua

go 1.21

require (
	github.com/ishidawataru/sctp v0.0.0-20210707070123-9a39160e9062
	github.com/wmnsk/go-m3ua v0.1.9
)
