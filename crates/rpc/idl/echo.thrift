// What is measured of Thrift. echo.proto says the same in gRPC's language.
namespace rs echo
namespace py echo

struct Position {
  1: required double x
  2: required double y
}

struct Structure {
  1: required i64 id
  2: required string name
  3: required double price
  4: required bool sold
  5: required Position at
  6: required list<i32> numbers
  7: required list<string> notes
  8: required map<string, string> labels
}

// What has arrived of a stream since the last one ended.
struct Summary {
  1: required i64 chunks
  2: required i64 bytes
}

// Gives back what it is given. Thrift has no streams: chunks are calls without an answer, and
// what has arrived is said when their end is told.
service Echo {
  i32 echo_int(1: i32 value)
  double echo_double(1: double value)
  string echo_string(1: string value)
  Structure echo_structure(1: Structure value)
  oneway void chunk(1: binary data)
  Summary finish()
}
