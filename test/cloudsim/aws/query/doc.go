// Package query is what the services of a simulated AWS that speak a query protocol have in common: the form that a
// request is (Form), the XML that an answer is (Writer), errors, filters, pages, and buckets of requests (Buckets).
//
// EC2's own protocol and the one of Elastic Load Balancing differ in how lists are written ("X.1" and "X.member.1", "item"
// and "member") and in the documents around results and errors; the latter are written where requests come in.
package query
