package server

import (
	"context"
	"errors"
	"fmt"
)

// What JSON may be made of before anything is built from it. A Service with 1,000 ports that is
// changed, with what the API server notes of who manages which field, has 30,000 values.
const (
	maxValues = 32 << 10
	maxDepth  = 64
	maxName   = 1 << 10 // bytes of a member's name
	maxNumber = 64      // digits of a number
	// maxText is how many bytes other texts have at most: twice what all annotations may have.
	maxText = 512 << 10
	// scanStep is after how many bytes the scan looks whether its time is up.
	scanStep = 64 << 10
)

// errTooComplex is of JSON beyond the bounds.
var errTooComplex = errors.New("the body is too complex")

// shape is what measure counts in JSON.
type shape struct {
	// values is how many there are at most: whatever is built has no more parts.
	values int
	depth  int
	digits int
	// text is the length of the text that is being read or was last; it is a name if a colon follows.
	text             int
	inText, escaping bool
}

// measure counts the values of what is to be decoded as JSON, and fails where there are too
// many, too deep ones, or names or numbers that are too long. It builds nothing, and ends with
// ctx. What is no JSON is left to the decoder, which builds nothing of it.
func measure(ctx context.Context, data []byte) (values int, err error) {
	s := shape{values: 1}
	for len(data) > 0 {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		step := data[:min(len(data), scanStep)]
		for _, b := range step {
			if s.inText {
				s.addText(b)
			} else if err := s.add(b); err != nil {
				return 0, err
			}
			if s.text > maxText {
				return 0, fmt.Errorf("%w: a text of more than %d bytes", errTooComplex, maxText)
			}
		}
		data = data[len(step):]
	}
	return s.values, nil
}

func (s *shape) addText(b byte) {
	switch {
	case s.escaping:
		s.escaping = false
	case b == '\\':
		s.escaping = true
	case b == '"':
		s.inText = false
		return
	}
	s.text++
}

func (s *shape) add(b byte) error {
	switch b {
	case '"':
		s.inText, s.text = true, 0
	case ':':
		if s.text > maxName {
			return fmt.Errorf("%w: a name of %d bytes, at most %d are allowed", errTooComplex, s.text, maxName)
		}
	case '{', '[':
		s.values++
		if s.depth++; s.depth > maxDepth {
			return fmt.Errorf("%w: more than %d levels", errTooComplex, maxDepth)
		}
	case '}', ']':
		s.depth--
	case ',':
		s.values++
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if s.digits++; s.digits > maxNumber {
			return fmt.Errorf("%w: a number of more than %d digits", errTooComplex, maxNumber)
		}
		return nil
	case '.', 'e', 'E', '+', '-':
		return nil
	}
	s.digits = 0
	if s.values > maxValues {
		return fmt.Errorf("%w: more than %d values", errTooComplex, maxValues)
	}
	return nil
}
