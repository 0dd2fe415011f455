"""A web server in plain Python that keeps notes, and a thread of clients that ask it."""
import http.client
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rounds import rounds


def words(text):
    return [word.lower() for word in re.findall(r"\w+", text)]


def score(query, text):
    found = words(text)
    return sum(found.count(word) / (1 + index) for index, word in enumerate(query)) / (1 + len(found))


class Notes:
    def __init__(self):
        self.texts = {}
        self.lock = threading.Lock()

    def add(self, text):
        with self.lock:
            self.texts[len(self.texts)] = text
            return len(self.texts) - 1

    def search(self, query):
        with self.lock:
            ranked = sorted(self.texts.items(), key=lambda item: (-score(words(query), item[1]), item[0]))
        return [number for number, _ in ranked[:5]]


NOTES = Notes()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave as one

    def log_message(self, *args):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer(201, {"id": NOTES.add(text)})

    def do_GET(self):
        kind, _, rest = self.path.lstrip("/").partition("/")
        if kind == "search":
            self.answer(200, NOTES.search(rest.replace("+", " ")))
        elif kind == "note" and rest.isdigit() and int(rest) in NOTES.texts:
            self.answer(200, NOTES.texts[int(rest)])
        else:
            self.answer(404, {"error": "no such thing"})


def client(port, number, results):
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask(method, path, body=None):
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    if number == 0:
        for index in range(60):
            ask("POST", "/note", f"note {index} about {'tea ' * (index % 7)} and {'milk ' * (index % 5)} {index % 3}")
    for index in range(300):
        results.append(ask("GET", ("/search/tea+milk", f"/note/{index}", "/nothing")[index % 3]))
    connection.close()


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for number in rounds(6):
        results = []
        asking = threading.Thread(target=client, args=(server.server_port, number, results))
        asking.start()
        asking.join()
        print(number, len(results), sum(status == 200 for status, _ in results), results[0], results[-1])
    server.shutdown()
    thread.join()
    server.server_close()


if __name__ == "__main__":
    main()
