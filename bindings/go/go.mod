module github.com/carrick-sctp/carrick/bindings/go

go 1.21
