# A small image that runs Usher as nobody in particular.
#
#   docker build -t usher .
#   docker run -d --name usher --restart unless-stopped --env-file usher.env \
#       --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#       -v usher-data:/data -v "$PWD/config.yaml:/data/config.yaml:ro" usher
#
# compose.yaml says the same and more. The database lies beside the configuration, in the volume
# /data. usher.env holds the secrets the configuration names, one NAME=value a line.
#
# Servers on the host (ComfyUI, LM Studio): name them http://host.docker.internal:8188 in the
# configuration and, on Linux, add
#       --add-host host.docker.internal:host-gateway
# They must listen on more than 127.0.0.1 of the host: `--listen` of ComfyUI, "Serve on Local
# Network" of LM Studio.
#
# The GPU, so that memory other programs take is seen: with NVIDIA's container toolkit, add
#       --gpus all -e NVIDIA_DRIVER_CAPABILITIES=utility
# The toolkit then brings the driver's NVML library in; without it, what the servers say and the
# configured sizes count.
#
# The web chat: chats.web with host 0.0.0.0 and a token, and
#       -p 127.0.0.1:8080:8080
#
# Videos and sound need PyAV, whose build carries x264 and x265 under the GPL. An image with them is
# yours to make (docs/decisions/0010-videos-and-sound.md says why):
#   docker build --build-arg MEDIA=yes -t usher .
#
# A database on a PostgreSQL server (docs/postgresql.md): --build-arg POSTGRES=yes

# The base by its digest: the same bytes at each build, on each kind of machine. What is behind a tag
# today: docker buildx imagetools inspect python:3.13-slim-trixie. A mirror, or another base with a
# Python of 3.11 or newer: --build-arg BASE=…
ARG BASE=docker.io/library/python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS program
ARG MEDIA=
ARG POSTGRES=
COPY locks/run.lock locks/media.lock locks/postgres.lock /
RUN python -m venv /usher \
    && /usher/bin/pip install --no-cache-dir --require-hashes -r /run.lock \
    && if [ -n "$MEDIA" ]; then \
        /usher/bin/pip install --no-cache-dir --require-hashes -r /media.lock; fi \
    && if [ -n "$POSTGRES" ]; then \
        /usher/bin/pip install --no-cache-dir --require-hashes -r /postgres.lock; fi \
    && /usher/bin/pip uninstall --yes pip
COPY . /app
# Compiled here: the container cannot write, and its health check would compile again each time.
RUN python -m compileall -q --invalidation-mode unchecked-hash /app \
    && printf '#!/bin/sh\nexec /usher/bin/python -P -m bot "$@"\n' > /usher/bin/usher \
    && chmod 755 /usher/bin/usher

FROM ${BASE}
RUN groupadd --system --gid 10001 usher \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /data usher \
    && install --directory --owner usher --group usher /data
COPY --from=program /usher /usher
COPY --from=program /app /app
ENV PATH=/usher/bin:$PATH PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
# Alive means that the bot's event loop has turned within the last minute, not that a process exists.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s \
    CMD ["usher", "health", "-c", "/data/config.yaml"]
ENTRYPOINT ["usher"]
CMD ["run", "-c", "/data/config.yaml"]
